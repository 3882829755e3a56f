#pragma once

// What a struct is like, as far as a compiler can be made to tell: whether it has fields, and
// whether it says itself how it travels (plain_struct.h).

#include <type_traits>

namespace skyward::probe {

// An archive that only a user's own template accepts.
struct Archive {
  template <typename... Ts>
  void operator()(Ts&&...);
};
struct AnyField {
  template <typename T>
  operator T() const;
};
// Beside the struct.
template <typename T>
concept HasFree = requires(Archive& archive, T& value) { serialize(archive, value); } ||
                  requires(Archive& archive, T& value) { save(archive, value); };
template <typename T>
concept HasOwn = HasFree<T> || requires(Archive& archive, T& value) { value.serialize(archive); } ||
                 requires(Archive& archive, T& value) { value.save(archive); } ||
                 requires(Archive& archive, T& value) { save_minimal(archive, value); } ||
                 requires(Archive& archive, T& value) { value.save_minimal(archive); };
// Converts to the base classes of T, and to nothing else.
template <typename T>
struct AnyInherited {
  template <typename U>
    requires(std::is_base_of_v<U, T> && !std::is_same_v<U, T>)
  operator U() const;
};
template <typename T>
constexpr bool kHasBase = requires { T{AnyInherited<T>{}}; };

// Converts to T, and not to its base classes.
template <typename T>
struct Itself {
  template <typename U>
    requires std::is_same_v<std::remove_const_t<U>, T>
  operator U&() const;
};
// Converts to the base classes of T, and not to T.
template <typename T>
struct Inherited {
  template <typename U>
    requires(std::is_base_of_v<U, T> && !std::is_same_v<std::remove_const_t<U>, T>)
  operator U&() const;
};

// Whether that member is T's own: a pointer to an inherited member has the base class's type.
template <typename T, typename C, typename R, typename... P>
std::is_same<T, C> is_of(R (C::*)(P...));
template <typename T, typename C, typename R, typename... P>
std::is_same<T, C> is_of(R (C::*)(P...) const);
template <typename T>
concept HasSerialize = requires { is_of<T>(&T::template serialize<Archive>); };
template <typename T>
concept HasSave = requires { is_of<T>(&T::template save<Archive>); };

// Whether T has a `serialize` or `save` that is no base class's, as a member or beside it.
template <typename T>
constexpr bool says_itself() {
  if constexpr (HasSerialize<T>) {
    return decltype(is_of<T>(&T::template serialize<Archive>))::value;
  } else if constexpr (HasSave<T>) {
    return decltype(is_of<T>(&T::template save<Archive>))::value;
  } else {
    return HasFree<Itself<T>>;
  }
}
// Converts to the base classes of T that say themselves how they travel.
template <typename T>
struct AnySaid {
  template <typename U>
    requires(std::is_base_of_v<U, T> && !std::is_same_v<U, T> && says_itself<U>())
  operator U() const;
};
// Whether T travels as a base class says, which may leave out fields of its own: that there are
// none is known of an aggregate alone, which then takes nothing besides the base class.
template <typename T>
constexpr bool inherits_its_form() {
  if constexpr (says_itself<T>()) {
    return false;
  } else if constexpr (!HasSerialize<T> && !HasSave<T> && !HasFree<Inherited<T>>) {
    return false;
  } else if constexpr (!std::is_aggregate_v<T>) {
    return true;
  } else {
    constexpr bool kTakesBase = requires { T{AnySaid<T>{}}; };
    constexpr bool kTakesMore =
        requires { T{AnySaid<T>{}, AnyField{}}; } || requires { T{AnySaid<T>{}, {}}; };
    return !kTakesBase || kTakesMore;
  }
}

}  // namespace skyward::probe
