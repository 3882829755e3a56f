#pragma once

// Groups of calls (wire/group.h), in the namespace of the programs that use them.

#include "skyward/wire/group.h"

namespace skyward {

using wire::group_arguments;
using wire::group_item;
using wire::group_item_head;
using wire::GroupItem;
using wire::GroupWriter;
using wire::kMaxGroupCalls;

}  // namespace skyward
