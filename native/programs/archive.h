// The entries of a zip archive that are stored as they are, over memory that shows the file.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>

#include "../core/error.h"

namespace flambeau {

class Archive {
 public:
  // Opens a file; its pages are read when they are looked at, and what is written to them stays in this process.
  // RuntimeError where there is none, ValueError where it is no archive.
  explicit Archive(const std::string& path);
  ~Archive();
  Archive(const Archive&) = delete;
  std::span<char> entry(const std::string& name) const;  // ValueError where there is none
  // The same, in whatever folder; nothing where there is none, if it may be missing.
  std::span<char> ending_in(const std::string& name, bool optional = false) const;

 private:
  std::span<char> file_;
  std::map<std::string, std::span<char>, std::less<>> entries_;
  std::string path_;

  template <class T> T number(size_t at) const;
  [[noreturn]] void damaged(const char* why) const;
  size_t directory(int64_t& entries) const;
  void read_directory();
};

}  // namespace flambeau
