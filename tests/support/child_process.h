// Another process of the same test program: it runs one skipped test case, which is told what to do by the environment
// and reports in a file.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace msj::testing {

class ChildProcess {
 public:
  // `test_case`: its full name. Asterisks and commas are doctest's wildcards.
  ChildProcess(const std::string &test_case, const std::map<std::string, std::string> &environment) {
    const std::string filter = "--test-case=" + test_case;
    std::vector<std::string> variables;
    for (char **variable = environ; *variable != nullptr; ++variable) {
      const std::string text = *variable;
      if (!environment.contains(text.substr(0, text.find('=')))) variables.push_back(text);
    }
    for (const auto &[variable, value] : environment) variables.push_back(variable + "=" + value);
    std::vector<char *> pointers;
    for (std::string &variable : variables) pointers.push_back(variable.data());
    pointers.push_back(nullptr);
    const std::vector<const char *> arguments = {"child", filter.c_str(), "--no-skip", "--minimal", nullptr};
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) {
      execve("/proc/self/exe", const_cast<char *const *>(arguments.data()), pointers.data());
      _exit(127);
    }
  }
  ~ChildProcess() {
    if (pid_ > 0) (void)wait();
  }
  ChildProcess(const ChildProcess &) = delete;
  ChildProcess &operator=(const ChildProcess &) = delete;

  // The exit status; -1 if a signal ended it.
  int wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace msj::testing
