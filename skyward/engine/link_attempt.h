#pragma once

// One run of the command that reaches a node: the process, the exchange before the first frame if
// there is a shell in between, the channel of frames, the end and its reason. engine/link.h makes
// one after another.

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/outgoing.h"
#include "skyward/base/time.h"
#include "skyward/engine/link_entry.h"
#include "skyward/engine/link_policy.h"
#include "skyward/io/channel.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/process.h"
#include "skyward/provider/provider.h"

namespace skyward::engine {

class LinkAttempt {
 public:
  using End = ConnectionEnd;
  // All are called on the loop thread, and never from inside a call by the owner, except send() and
  // flush().
  struct Events {
    std::function<void()> on_reached;  // the machine's shell has answered, if there is one
    std::function<void()> on_open;     // frames may be sent
    std::function<void(io::Incoming)> on_frame;
    std::function<void()> on_idle;    // room for more
    std::function<void(End)> on_end;  // once; not after stop()
    std::function<void()> on_gone;    // once, last: the process was reaped, or cannot be killed
  };

  // What precedes the first frame if there is a shell in between.
  struct Entry {
    std::string line;               // the command's last argument; empty: there is no shell
    std::vector<EntryFile> agents;  // of which the node may ask for the one for its machine
    std::vector<EntryFile> files;   // ... and for these
  };

  // Reports a failure to start as on_end.
  LinkAttempt(io::EventLoop& loop, const provider::Connection& connection, bool socket, Entry entry,
              Events events);
  ~LinkAttempt();
  LinkAttempt(const LinkAttempt&) = delete;
  LinkAttempt& operator=(const LinkAttempt&) = delete;

  bool is_open() const { return channel_ && channel_->is_open(); }
  void send(Outgoing message);
  void flush();
  std::size_t queued_bytes() const;
  // Grows while anything moves in either direction: a slow connection is not a dead one.
  std::uint64_t moved_bytes() const;

  // With what the command has said so far, and what to do about it.
  Error with_its_words(Error why) const;
  // Ends it without a call of on_end. The process sees the end of its input and has `grace`; then
  // it is killed, and abandoned if it is still there kKillTimeout later.
  void stop(Duration grace);

 private:
  Status start(bool socket);
  void open_channel();
  void read_entry();
  void handle_word(const EntryReader::Word& word);
  void refuse_machine(const std::string& machine);
  void load(const EntryReader::Word& need);
  void write_upload();
  void count_upload(bool uploading);
  void channel_closed(const Error& why);
  void read_stderr();
  void exited(io::ExitStatus status);
  void finish(End end);
  void let_go(Duration grace);
  void schedule_gone();

  io::EventLoop& loop_;
  Events events_;
  const provider::Connection connection_;
  const Entry entry_;
  std::unique_ptr<io::Channel> channel_;
  std::unique_ptr<io::Process> process_;
  io::FileDescriptor read_;  // until the channel has them
  io::FileDescriptor write_;
  io::FileDescriptor stderr_;
  EntryReader reader_;
  std::deque<SharedBytes> upload_;  // what is still to be sent
  std::uint64_t upload_bytes_ = 0;  // what it was
  Time handed_over_at_{};           // the last of its bytes until now
  bool uploading_ = false;
  std::uint64_t moved_ = 0;
  std::string stderr_tail_;
  std::string channel_error_;
  bool reached_ = false;  // the machine's shell has answered
  bool over_ = false;
  bool exited_ = false;
  io::EventLoop::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_;  // false once destroyed; posted callbacks share it
};

}  // namespace skyward::engine
