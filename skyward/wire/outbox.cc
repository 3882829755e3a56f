#include "skyward/wire/outbox.h"

#include <algorithm>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"

namespace skyward::wire {
namespace {

std::optional<TaskId> task_of(const Message& message) {
  if (const auto* run = std::get_if<RunTask>(&message)) return run->task;
  if (const auto* cancel = std::get_if<CancelTask>(&message)) return cancel->task;
  if (const auto* credit = std::get_if<StreamCredit>(&message)) return credit->task;
  if (const auto* result = std::get_if<TaskResult>(&message)) return result->task;
  if (const auto* item = std::get_if<StreamItem>(&message)) return item->task;
  return std::nullopt;
}

constexpr ContentId kUnknown{};

}  // namespace

Status Outbox::push(Message& message) {
  if (const auto* drop = std::get_if<DropBlobs>(&message)) {
    for (const BlobId blob : drop->blobs) release(blob);
    keep_within_budget();
    return {};
  }
  if (const auto* drop = std::get_if<DropFunctions>(&message)) {
    for (const FunctionId& function : drop->functions) bodies_.erase(function);
  }
  auto* run = std::get_if<RunTask>(&message);
  if (run != nullptr) attach_body(*run);  // before anything can fail
  std::vector<BlobId> uses;
  std::vector<Buffer*> buffers;
  for_each_blob_buffer(message, [&](Buffer& buffer) { buffers.push_back(&buffer); });
  if (!buffers.empty()) {
    auto named = name_blobs(buffers, run == nullptr);
    if (!named) return fail(named);
    uses = *std::move(named);
  }
  const std::optional<TaskId> task = task_of(message);
  const bool follows = task && held_tasks_.contains(*task);
  const bool complete =
      std::ranges::all_of(uses, [&](BlobId blob) { return contents_.at(blob).whole(); });
  if (complete && !follows) {
    note_sent(message);
    urgent_.push_back(std::move(message));
    return {};
  }
  // Also those that are there: they must stay until the message has gone.
  for (const BlobId blob : uses) ++contents_.at(blob).waiting;
  held_.push_back({std::move(message), std::move(uses), task});
  if (task) held_tasks_[*task].push_back(std::prev(held_.end()));
  return {};
}

// The first task of a function brings its body. That may be held up or withdrawn: whichever goes
// first takes it along.
void Outbox::attach_body(RunTask& run) {
  if (!run.body.empty()) {
    bodies_.try_emplace(run.function, run.body);
    return;
  }
  const auto found = bodies_.find(run.function);
  if (found != bodies_.end()) run.body = found->second;
}

void Outbox::note_sent(const Message& message) {
  if (const auto* run = std::get_if<RunTask>(&message); run != nullptr && !run->body.empty()) {
    bodies_.erase(run->function);
  }
}

// Gives the blobs the names that the other end knows, and returns them.
Result<std::vector<BlobId>> Outbox::name_blobs(std::span<Buffer* const> buffers, bool once) {
  std::vector<BlobId> uses;
  std::vector<std::pair<Blob, BlobId>> named;  // what tells them apart, and the names
  const auto name_of = [&](const Blob& blob) {
    return std::ranges::find_if(named, [&](const auto& one) { return same_blob(one.first, blob); });
  };
  for (Buffer* const buffer : buffers) {
    const Blob& blob = buffer->blob;
    if (name_of(blob) == named.end()) {
      auto name = name_blob(blob, once);
      if (!name) {
        for (const auto& [same, made] : named) {
          const auto content = contents_.find(made);
          if (content != contents_.end() && content->second.once) forget(content, false);
        }
        return fail(name);
      }
      named.emplace_back(Blob{.id = blob.id, .size = blob.size, .descriptor = blob.descriptor},
                         *name);
    }
  }
  for (Buffer* const buffer : buffers) {
    Blob& blob = buffer->blob;
    blob = {.id = name_of(blob)->second, .size = blob.size, .content = blob.content};
    if (std::ranges::find(uses, blob.id) == uses.end()) uses.push_back(blob.id);
  }
  return uses;
}

Result<BlobId> Outbox::name_blob(const Blob& blob, bool once) {
  if (!once) {
    if (const auto name = known(blob)) {
      Content& content = contents_.at(*name);
      // Keeps the bytes while a caller still has them: the fetch may fail, or has failed.
      if (!content.whole() && content.bytes.empty()) {
        auto bytes = read_whole(blob);
        if (!bytes) return fail(bytes);
        content.bytes = *std::move(bytes);
      }
      use(*name, blob.id);
      return *name;
    }
  }
  auto bytes = read_whole(blob);
  if (!bytes) return fail(bytes);
  Content content;
  content.bytes = *std::move(bytes);
  content.once = once;
  return add(std::move(content), blob);
}

Result<SharedBytes> Outbox::read_whole(const Blob& blob) const {
  auto bytes = read_(blob);
  SKYWARD_CHECK(!bytes || bytes->size() == blob.size, "{} of {} bytes", bytes->size(), blob.size);
  return bytes;
}

// The other end's name for a blob that it has or is getting.
std::optional<BlobId> Outbox::known(const Blob& blob) const {
  if (const auto found = names_.find(blob.id); found != names_.end()) return found->second;
  if (blob.content == kUnknown) return std::nullopt;
  const auto found = by_content_.find(blob.content);
  if (found == by_content_.end()) return std::nullopt;
  const bool same = blob.size == 0 || contents_.at(found->second).blob.size == blob.size;
  return same ? std::optional(found->second) : std::nullopt;
}

void Outbox::use(BlobId name, BlobId user) {
  if (!names_.try_emplace(user, name).second) return;
  Content& content = contents_.at(name);
  if (content.users.empty()) {
    unused_.erase(content.unused);
    unused_bytes_ -= content.blob.size;
  }
  content.users.insert(user);
}

BlobId Outbox::add(Content content, const Blob& blob) {
  const BlobId name{next_name_++};
  content.blob = {.id = name, .size = blob.size, .content = blob.content};
  if (!content.once) {
    content.users.insert(blob.id);
    names_[blob.id] = name;
    if (blob.content != kUnknown) by_content_.try_emplace(blob.content, name);
  }
  waiting_bytes_ += content.unsent();
  contents_.emplace(name, std::move(content));
  return name;
}

std::optional<BlobFetched> Outbox::push(FetchBlob fetch) {
  const Blob blob{.id = fetch.blob, .size = fetch.size, .content = fetch.content};
  const auto name = known(blob);
  if (!name && fetch.port == 0) return std::nullopt;  // nobody asks any more
  fetch.blob = name ? *name : add({.fetch = Fetch::running}, blob);
  Content& content = contents_.at(fetch.blob);
  if (content.fetch == Fetch::none) {
    return BlobFetched{.blob = fetch.blob,
                       .content = fetch.content,
                       .attempt = fetch.attempt,
                       .received = fetch.size};
  }
  content.send_rest = fetch.port == 0;
  if (content.fetch == Fetch::stopped && content.send_rest) {
    change(content, [&] { content.fetch = Fetch::none; });
    return std::nullopt;
  }
  content.fetch = Fetch::running;  // it was not `none`: the sum stays
  content.attempt = fetch.attempt;
  urgent_.emplace_back(std::move(fetch));
  return std::nullopt;
}

bool Outbox::take(const BlobFetched& fetched) {
  const auto found = contents_.find(fetched.blob);
  if (found == contents_.end()) return false;
  if (fetched.attempt == kNotAsked) {
    if (found->second.whole() && !found->second.once) lose(found);
    return false;
  }
  if (found->second.fetch != Fetch::running || fetched.attempt != found->second.attempt) {
    return false;
  }
  Content& content = found->second;
  change(content, [&] {
    content.sent = std::min(fetched.received, content.blob.size);
    content.fetch =
        content.send_rest || fetched.end == FetchEnd::whole ? Fetch::none : Fetch::stopped;
  });
  if (content.whole()) content.bytes = {};
  return true;
}

void Outbox::set_budget(std::uint64_t bytes) {
  budget_ = bytes;
  keep_within_budget();
}

// No task of this end refers to the blob by this name any more.
void Outbox::release(BlobId user) {
  const auto name = names_.find(user);
  if (name == names_.end()) return;
  const auto found = contents_.find(name->second);
  names_.erase(name);
  Content& content = found->second;
  content.users.erase(user);
  if (!content.users.empty()) return;
  if (!content.whole() && content.waiting == 0) return forget(found, true);
  content.unused = unused_.insert(unused_.end(), found->first);
  unused_bytes_ += content.blob.size;
}

void Outbox::keep_within_budget() {
  const auto is_over = [&] { return unused_bytes_ > budget_ || unused_.size() > kMaxKeptBlobs; };
  for (auto next = unused_.begin(); next != unused_.end() && is_over();) {
    const auto found = contents_.find(*next++);
    if (found->second.waiting > 0) continue;  // a held message that nobody asks for any more
    unused_bytes_ -= found->second.blob.size;
    unused_.erase(found->second.unused);
    forget(found, true);
  }
}

void Outbox::forget(std::unordered_map<BlobId, Content>::iterator content, bool tell) {
  const BlobId name = content->first;
  unlist(name, content->second);
  if (tell && content->second.is_known_there()) urgent_.emplace_back(DropBlobs{{name}});
  waiting_bytes_ -= content->second.unsent();
  contents_.erase(content);
}

// The other end has not kept it. Whatever uses the same bytes from now on sends them again.
void Outbox::lose(std::unordered_map<BlobId, Content>::iterator content) {
  Content& lost = content->second;
  if (std::exchange(lost.lost, true)) return;
  if (lost.users.empty()) {
    unused_.erase(lost.unused);
    unused_bytes_ -= lost.blob.size;
  }
  for (const BlobId user : std::exchange(lost.users, {})) names_.erase(user);
  unlist(content->first, lost);
  if (lost.waiting == 0) forget(content, true);
}

// Equal bytes are no longer found under this name.
void Outbox::unlist(BlobId name, const Content& content) {
  const auto known = by_content_.find(content.blob.content);
  if (known != by_content_.end() && known->second == name) by_content_.erase(known);
}

std::optional<Message> Outbox::next_urgent() {
  if (urgent_.empty()) return std::nullopt;
  Message message = std::move(urgent_.front());
  urgent_.pop_front();
  return message;
}

std::optional<Message> Outbox::next_bulk() {
  std::unordered_set<TaskId> passed;  // what follows one that waits waits, too
  for (auto held = held_.begin(); held != held_.end(); ++held) {
    if (held->task && passed.contains(*held->task)) continue;
    if (auto chunk = next_chunk(held->uses)) return chunk;
    if (std::ranges::all_of(held->uses,
                            [this](BlobId name) { return contents_.at(name).whole(); })) {
      return release_held(held);
    }
    if (held->task) passed.insert(*held->task);
  }
  return std::nullopt;
}

// The next part of what is to be sent from here.
std::optional<Message> Outbox::next_chunk(const std::vector<BlobId>& uses) {
  for (const BlobId name : uses) {
    Content& content = contents_.at(name);
    if (content.whole() || content.fetch != Fetch::none) continue;
    const std::size_t size =
        std::min<std::size_t>(kBlobChunkBytes, content.blob.size - content.sent);
    BlobChunk chunk{.blob = name,
                    .size = content.blob.size,
                    .offset = content.sent,
                    .bytes = {content.bytes.owner, content.bytes.view.subspan(content.sent, size)},
                    .content = content.blob.content};
    change(content, [&] { content.sent += size; });
    if (content.whole()) content.bytes = {};
    return chunk;
  }
  return std::nullopt;
}

Message Outbox::release_held(HeldPlace place) {
  if (place->task) {
    const auto same = held_tasks_.find(*place->task);
    SKYWARD_CHECK(same->second.front() == place, "task {} out of order", place->task->value);
    same->second.pop_front();
    if (same->second.empty()) held_tasks_.erase(same);
  }
  Held whole = std::move(*place);
  held_.erase(place);
  let_go(whole.uses);
  note_sent(whole.message);
  return std::move(whole.message);
}

// A held message no longer waits for these.
void Outbox::let_go(const std::vector<BlobId>& uses) {
  for (const BlobId name : uses) {
    const auto found = contents_.find(name);
    --found->second.waiting;
    if (found->second.once) {
      forget(found, false);
    } else if (found->second.lost && found->second.waiting == 0) {
      forget(found, true);
    }
  }
  keep_within_budget();
}

std::optional<RunTask> Outbox::withdraw(TaskId task) {
  const auto found = held_tasks_.find(task);
  if (found == held_tasks_.end()) return std::nullopt;
  ++looked_at_;
  if (!std::holds_alternative<RunTask>(found->second.front()->message)) return std::nullopt;
  const std::deque<HeldPlace> places = std::move(found->second);
  held_tasks_.erase(found);
  auto run = std::get<RunTask>(std::move(places.front()->message));
  // What follows it (credits) has lost its meaning.
  for (const HeldPlace place : places) {
    ++looked_at_;
    const std::vector<BlobId> uses = std::move(place->uses);
    held_.erase(place);
    let_go(uses);
  }
  return run;
}

void Outbox::sanity_check() const {
  std::uint64_t unsent = 0;
  for (const auto& [name, content] : contents_) unsent += content.unsent();
  SKYWARD_CHECK(unsent == waiting_bytes_, "{} bytes wait, not {}", unsent, waiting_bytes_);
  std::unordered_map<TaskId, std::size_t> seen;  // messages of each task
  for (auto held = held_.begin(); held != held_.end(); ++held) {
    if (!held->task) continue;
    const auto places = held_tasks_.find(*held->task);
    const std::size_t index = seen[*held->task]++;
    SKYWARD_CHECK(places != held_tasks_.end() && index < places->second.size() &&
                      &*places->second[index] == &*held,
                  "message {} of task {}", index, held->task->value);
  }
  SKYWARD_CHECK(seen.size() == held_tasks_.size(), "{} tasks", held_tasks_.size());
  for (const auto& [task, count] : seen)
    SKYWARD_CHECK(held_tasks_.at(task).size() == count, "task {}", task.value);
}

}  // namespace skyward::wire
