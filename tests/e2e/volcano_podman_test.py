#!/usr/bin/env python3
"""A Volcano Job in containers, as it is written for Volcano: images, the files and variables of the plugins, resources, a
volume, a policy. (The words of policies and retries are in volcano_test.py; they are the same for every runtime.)
"""
import sys

import podman_world
from bole import Bole

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: sum, namespace: vision}
spec:
  minAvailable: 3
  schedulerName: volcano
  plugins: {env: [], svc: []}
  policies: [{event: PodEvicted, action: RestartJob}]
  tasks:
    - name: master
      replicas: 1
      policies: [{event: TaskCompleted, action: CompleteJob}]
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: IMAGE
              workingDir: /tmp
              command: [sh, -c]
              # A port for each worker: a listener that ends closes what another has connected to it.
              args: ['pwd; cat /etc/volcano/worker.host; cat $(DATA)/number; nc -l -p 2220 & nc -l -p 2221; wait']
              env: [{name: DATA, value: /data}]
              resources: {limits: {nvidia.com/gpu: 1, cpu: 100m}}
              volumeMounts: [{name: data, mountPath: /data, readOnly: true}, {name: shm, mountPath: /dev/shm}]
          volumes:
            - {name: data, hostPath: {path: DATA}}
            - {name: shm, emptyDir: {medium: Memory, sizeLimit: 32Mi}}
    - name: worker
      replicas: 2
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: IMAGE
              command: [sh, -c]
              args:
                - |
                  until echo "worker $VC_TASK_INDEX of $VC_WORKER_NUM" | nc -w 5 "$VC_MASTER_HOSTS" "222$VC_TASK_INDEX"; do sleep 0.1; done
                  sleep 600
              resources: {limits: {nvidia.com/gpu: 1, cpu: 100m}}
"""


def main():
    podman_world.enter()
    podman_world.make_image()
    with Bole(sys.argv[1]) as bole:
        data = bole.directory / "data"
        data.mkdir(mode=0o755)
        (data / "number").write_text("the number\n")
        bole.up()
        text = JOB.replace("IMAGE", podman_world.IMAGE).replace("DATA}}", f"{data}}}}}")
        done = bole.run("submit", "-f", "-", check=0, input=text)
        assert done.stderr == "", f"all of it is honoured: {done.stderr}"
        detail = bole.wait_for("sum", seconds=120)
        lines = bole.lines("sum", rank=0)
        everything = "\n".join(bole.lines("sum"))
        assert detail["summary"]["state"] == "SUCCEEDED", (detail["summary"], detail["attempts"], everything)
        assert detail["summary"]["project"] == "vision"
        assert lines[:4] == ["/tmp", "sum-worker-0.sum", "sum-worker-1.sum", "the number"], everything
        assert sorted(lines[4:]) == ["worker 0 of 2", "worker 1 of 2"], everything
        gpus = sorted(gpu for rank in detail["attempts"][0]["ranks"] for gpu in rank["gpus"])
        assert gpus == [0, 1, 2], gpus
        bole.wait_until(lambda: not bole.supervisors() and not podman_world.conmons(bole.home), "no process is left", 20)
        assert podman_world.containers() == [], podman_world.containers()
        assert bole.run("fsck", "--full", check=0).stdout.startswith("clean")
    return 0


if __name__ == "__main__":
    sys.exit(main())
