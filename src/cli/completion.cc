#include "cli/completion.h"

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/text.h"

namespace bole::cli {
namespace {

constexpr const char* kStates = "queued running starting stopping succeeded failed cancelled";
constexpr const char* kShells = "bash zsh fish";

std::string joinedNames(const std::vector<CommandInfo>& commands) {
  std::string text;
  for (const auto& command : commands) text += command.name + " ";
  return text + "help";
}

std::string optionWords(const CommandInfo& command) {
  std::string text;
  for (const auto& option : command.options) {
    for (const auto& name : option.names) text += (text.empty() ? "" : " ") + name;
  }
  return text;
}

// ---- bash

std::string bashWords(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNone:
    case ValueKind::kText:
      return "COMPREPLY=()";
    case ValueKind::kFile:
      return "COMPREPLY=($(compgen -f -- \"$cur\"))";
    case ValueKind::kDirectory:
      return "COMPREPLY=($(compgen -d -- \"$cur\"))";
    case ValueKind::kJob:
      return "COMPREPLY=($(compgen -W \"$(_bole_jobs --all)\" -- \"$cur\"))";
    case ValueKind::kLiveJob:
      return "COMPREPLY=($(compgen -W \"$(_bole_jobs)\" -- \"$cur\"))";
    case ValueKind::kQueue:
      return "COMPREPLY=($(compgen -W \"$(_bole_queues)\" -- \"$cur\"))";
    case ValueKind::kPolicy:
      return "COMPREPLY=($(compgen -W apply -- \"$cur\") $(compgen -f -- \"$cur\"))";
    case ValueKind::kState:
      return fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))", kStates);
    case ValueKind::kShell:
      return fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))", kShells);
    case ValueKind::kCommand:
      return "COMPREPLY=($(compgen -c -- \"$cur\") $(compgen -f -- \"$cur\"))";
  }
  return {};
}

std::string bashCommand(const CommandInfo& command) {
  std::string text = fmt::format("    {})\n      case \"$prev\" in\n", command.name);
  for (const auto& option : command.options) {
    if (option.value == ValueKind::kNone) continue;
    std::string names;
    for (const auto& name : option.names) names += (names.empty() ? "" : "|") + name;
    text += fmt::format("        {}) {}; return ;;\n", names, bashWords(option.value));
  }
  text += "      esac\n";
  text += fmt::format(
      "      if [[ \"$cur\" == -* ]]; then COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))\n"
      "      else {}; fi ;;\n",
      optionWords(command), bashWords(command.argument));
  return text;
}

std::string bashScript(const std::vector<CommandInfo>& commands) {
  std::string text =
      "# bash completion for bole: source <(bole completion bash)\n"
      "_bole_jobs() { bole ps \"$@\" --limit 200 2>/dev/null | "
      "awk 'NR > 1 {print $1; print $2}'; }\n"
      "_bole_queues() { bole queues 2>/dev/null | awk 'NR > 1 {print $1}'; }\n"
      "_bole() {\n"
      "  local cur prev command word\n"
      "  cur=\"${COMP_WORDS[COMP_CWORD]}\"; prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  COMPREPLY=()\n"
      "  command=\"${COMP_WORDS[1]}\"\n";
  text += fmt::format(
      "  if [[ $COMP_CWORD -eq 1 ]]; then\n"
      "    COMPREPLY=($(compgen -W \"{} --help --version\" -- \"$cur\")); return\n"
      "  fi\n"
      "  case \"$command\" in\n"
      "    help) COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")) ;;\n",
      joinedNames(commands), joinedNames(commands));
  for (const auto& command : commands) text += bashCommand(command);
  return text +
         "  esac\n"
         "}\n"
         "complete -o filenames -F _bole bole\n";
}

// ---- zsh

// Within a single-quoted _arguments specification.
std::string zshText(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

std::string zshAction(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNone:
    case ValueKind::kText:
      return " ";
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kDirectory:
      return "_files -/";
    case ValueKind::kJob:
      return "{_bole_jobs --all}";
    case ValueKind::kLiveJob:
      return "{_bole_jobs}";
    case ValueKind::kQueue:
      return "{_bole_queues}";
    case ValueKind::kPolicy:
      return "{_bole_policy}";
    case ValueKind::kState:
      return fmt::format("({})", kStates);
    case ValueKind::kShell:
      return fmt::format("({})", kShells);
    case ValueKind::kCommand:
      return "_normal";
  }
  return " ";
}

std::string zshCommand(const CommandInfo& command) {
  std::string text = fmt::format("    {})\n      _arguments \\\n", command.name);
  for (const auto& option : command.options) {
    for (const auto& name : option.names) {
      text += fmt::format("        '*{}[{}]", name, zshText(option.help));
      if (option.value != ValueKind::kNone) text += ":value:" + zshAction(option.value);
      text += "' \\\n";
    }
  }
  if (command.argument == ValueKind::kCommand) return text + "        '*::command:_normal' ;;\n";
  if (command.argument == ValueKind::kNone) return text + "        && return ;;\n";
  return text + fmt::format("        '*:argument:{}' ;;\n", zshAction(command.argument));
}

std::string zshScript(const std::vector<CommandInfo>& commands) {
  std::string text =
      "#compdef bole\n"
      "# zsh completion for bole: source <(bole completion zsh), after compinit\n"
      "_bole_jobs() {\n"
      "  local -a jobs\n"
      "  jobs=(${(f)\"$(bole ps $@ --limit 200 2>/dev/null | awk 'NR > 1 {print $1; print "
      "$2}')\"})\n"
      "  compadd -a jobs\n"
      "}\n"
      "_bole_queues() { compadd ${(f)\"$(bole queues 2>/dev/null | awk 'NR > 1 {print $1}')\"} }\n"
      "_bole_policy() { compadd apply; _files }\n"
      "_bole() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const auto& command : commands) {
    text += fmt::format("    '{}:{}'\n", command.name, zshText(command.summary));
  }
  text +=
      "    'help:Say how a command is used'\n"
      "  )\n"
      "  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
      "  local command=$words[2]\n"
      "  shift words; (( CURRENT-- ))\n"
      "  case $command in\n"
      "    help) _describe command commands ;;\n";
  for (const auto& command : commands) text += zshCommand(command);
  return text +
         "  esac\n"
         "}\n"
         "compdef _bole bole\n";
}

// ---- fish

std::string fishQuoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fishValue(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNone:
      return "";
    case ValueKind::kText:
      return " -x";
    case ValueKind::kFile:
      return " -rF";
    case ValueKind::kDirectory:
      return " -xa '(__fish_complete_directories)'";
    case ValueKind::kJob:
      return " -xa '(__bole_jobs --all)'";
    case ValueKind::kLiveJob:
      return " -xa '(__bole_jobs)'";
    case ValueKind::kQueue:
      return " -xa '(__bole_queues)'";
    case ValueKind::kPolicy:
      return " -a apply -F";
    case ValueKind::kState:
      return fmt::format(" -xa '{}'", kStates);
    case ValueKind::kShell:
      return fmt::format(" -xa '{}'", kShells);
    case ValueKind::kCommand:
      return " -xa '(__fish_complete_subcommand)'";
  }
  return "";
}

std::string fishCommand(const CommandInfo& command) {
  const auto seen =
      fmt::format("complete -c bole -n '__fish_seen_subcommand_from {}'", command.name);
  std::string text = fmt::format("complete -c bole -n __fish_use_subcommand -a {} -d {}\n",
                                 command.name, fishQuoted(command.summary));
  for (const auto& option : command.options) {
    text += seen;
    for (const auto& name : option.names) {
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    text += fishValue(option.value) + " -d " + fishQuoted(option.help) + "\n";
  }
  const bool files = command.argument == ValueKind::kFile;
  if (files)
    text += seen + " -F\n";
  else if (command.argument != ValueKind::kNone)
    text += seen + fishValue(command.argument) + "\n";
  return text;
}

std::string fishScript(const std::vector<CommandInfo>& commands) {
  std::string text =
      "# fish completion for bole: bole completion fish | source\n"
      "function __bole_jobs\n"
      "  bole ps $argv --limit 200 2>/dev/null | awk 'NR > 1 {print $1; print $2}'\n"
      "end\n"
      "function __bole_queues\n"
      "  bole queues 2>/dev/null | awk 'NR > 1 {print $1}'\n"
      "end\n"
      "complete -c bole -f\n"
      "complete -c bole -n __fish_use_subcommand -a help -d 'Say how a command is used'\n";
  text += fmt::format("complete -c bole -n '__fish_seen_subcommand_from help' -a '{}'\n",
                      joinedNames(commands));
  for (const auto& command : commands) text += fishCommand(command);
  return text;
}

}  // namespace

std::string completionScript(const std::string& shell, const std::vector<CommandInfo>& commands) {
  if (shell == "bash") return bashScript(commands);
  if (shell == "zsh") return zshScript(commands);
  return fishScript(commands);
}

int runCommand(Context& context, const CompletionArgs& args) {
  context.print(completionScript(args.shell, describeCommands()));
  return kExitOk;
}

}  // namespace bole::cli
