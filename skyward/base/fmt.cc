// The library fmt, compiled once: distributions have it only as a shared library, which neither the
// static node program nor a wheel can use, and as headers alone it costs a third of the time of
// every source that formats. Here is what fmt's headers declare and leave to a library.

// Numbers with a locale's separators would link all of the C++ locales: half a megabyte of the
// agent. Nobody here prints such numbers.
#define FMT_STATIC_THOUSANDS_SEPARATOR ','
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
#if FMT_VERSION >= 100000
template FMT_API void vformat_to(buffer<char>&, string_view, typename vformat_args<>::type,
                                 locale_ref);
#endif

}  // namespace detail
FMT_END_NAMESPACE
