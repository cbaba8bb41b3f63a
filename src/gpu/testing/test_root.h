// A /proc and /sys of a test's own.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace bole::gpu {

class TestRoot {
 public:
  TestRoot() {
    std::string pattern = (std::filesystem::temp_directory_path() / "bole-gpu-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  TestRoot(const TestRoot&) = delete;
  TestRoot& operator=(const TestRoot&) = delete;
  ~TestRoot() { std::filesystem::remove_all(path_); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }

  // A machine with 8 CPUs in two NUMA nodes and 64 GB.
  void writeMachine() const {
    write("proc/sys/kernel/hostname", "gpu-box\n");
    write("proc/sys/kernel/random/boot_id", "6f1e0a52-0b7c-4d9e-8b56-3d1f7a2c9e10\n");
    write("proc/meminfo", "MemTotal:       65843912 kB\nMemFree:        1024 kB\n");
    write("sys/devices/system/cpu/online", "0-7\n");
    write("sys/devices/system/node/online", "0-1\n");
    write("sys/devices/system/node/node0/cpulist", "0-3\n");
    write("sys/devices/system/node/node1/cpulist", "4-7\n");
  }

  void writePciDevice(const std::string& address, const std::string& pciClass, int numaNode,
                      const std::string& driver = "nvidia",
                      const std::string& vendor = "0x10de") const {
    const std::string directory = "sys/bus/pci/devices/" + address + "/";
    write(directory + "vendor", vendor + "\n");
    write(directory + "class", pciClass + "\n");
    write(directory + "numa_node", std::to_string(numaNode) + "\n");
    if (driver.empty()) return;
    std::filesystem::create_symlink("../../../bus/pci/drivers/" + driver,
                                    path_ / (directory + "driver"));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace bole::gpu
