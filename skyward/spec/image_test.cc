#include "skyward/spec/image.h"

#include <gtest/gtest.h>

namespace skyward {
namespace {

TEST(ImageValidate, RefusesWhatIsTooLargeForAProcessOrAMessage) {
  Image image;
  image.env["X"] = std::string(17 << 20, 'a');
  EXPECT_EQ(validate(image).error().message,
            "Image(env=…): \"X\" takes 17825794 bytes; Linux allows 131071 per variable");
  image.env.clear();
  for (int i = 0; i < 3; ++i) image.env["V" + std::to_string(i)] = std::string(100'000, 'a');
  EXPECT_EQ(validate(image).error().message,
            "Image(env=…): the variables take 300009 bytes in total; the limit is 262144");
  image.env.clear();
  image.pip.assign(100, std::string(20'000, 'a'));
  EXPECT_EQ(
      validate(image).error().message,
      "Image(pip=…, apt=…): the package names take 2000000 bytes in total; the limit is 1048576");
}

TEST(ImageValidate, TakesWhatPipAndAptTake) {
  for (const char* package :
       {"torch", "A", "torch==2.1.*", "numpy>=1,<3", "numpy (>=1)", "scikit-learn[all, x]~=1.2",
        "jax[cuda12]", "pywin32 ; sys_platform == 'win32'",
        "tomli>=2; python_version < \"3.11\" and extra == 'x'", "x ; 'linux' in sys_platform",
        "pkg @ https://host/a.whl#sha256=00", "git+https://host/a.git@v1#egg=a",
        "https://host/a-1.0-py3-none-any.whl", "/srv/wheels/a-1.0-py3-none-any.whl", "zope.x"}) {
    const Status status = validate(Image{.pip = {package}});
    EXPECT_TRUE(status) << package << ": " << status.error().message;
  }
  for (const char* package : {"git", "g++-12", "libc6:amd64", "git=1:2.39-1~bpo", "curl/stable"}) {
    EXPECT_TRUE(validate(Image{.apt = {package}})) << package;
  }
  for (const char* python : {"", "auto", "3.9", "3.13", "3.13.1"}) {
    EXPECT_TRUE(validate(Image{.python = python})) << python;
  }
  EXPECT_TRUE(validate(Image{.pip_extra_index_url = "https://user:p%40ss@host/simple"}));
  EXPECT_TRUE(validate(Image{.env = {{"PATH", "a\nb 'c'"}, {"_x1", ""}}}));
}

TEST(ImageValidate, RefusesTheRestAndNamesIt) {
  for (const char* package : {"",
                              " ",
                              "-e",
                              "--index-url",
                              "--index-url=x",
                              "six\n",
                              "six\nrm",
                              "a;b",
                              "a; rm -rf /",
                              "a && b",
                              "a|b",
                              "$(id)",
                              "`id`",
                              "a b",
                              "a$HOME",
                              "a'b",
                              "./here",
                              "../x",
                              "~/x",
                              "é",
                              "a[",
                              "a[$x]",
                              "a @ ",
                              "a @ $(id)",
                              "a>=1`id`",
                              "https://host/a b",
                              "a>=\"1\"",
                              "a ; evil 'x'",
                              "a ; extra"}) {
    const Status status = validate(Image{.pip = {"six", package}});
    ASSERT_FALSE(status) << package;
    EXPECT_EQ(status.error().kind, ErrorKind::invalid);
    EXPECT_FALSE(status.error().hint.empty());
    EXPECT_FALSE(status.error().message.contains('\n')) << status.error().message;
  }
  EXPECT_FALSE(validate(Image{.pip = {std::string("a\0b", 3)}}));
  for (const char* package : {"", "-y", "Git", "a b", "git;x", "git$(x)", "git-", "git=", "a\n"}) {
    EXPECT_FALSE(validate(Image{.apt = {package}})) << package;
  }
  for (const char* python : {"3", "2.7", "3.", "3.x", "3.12.1.2", "3.12 ", "three", "3.1234"}) {
    EXPECT_FALSE(validate(Image{.python = python})) << python;
  }
  for (const char* url :
       {"", "host/simple", "https://host/a b", "--x=https://a", "https://$(id)"}) {
    EXPECT_FALSE(validate(Image{.pip_extra_index_url = url})) << url;
  }
  for (const char* name : {"", "1A", "A-B", "A B", "A=B", "é"}) {
    EXPECT_FALSE(validate(Image{.env = {{name, ""}}})) << name;
  }
  EXPECT_FALSE(validate(Image{.env = {{"A", std::string("x\0", 2)}}}));
}

TEST(ImageValidate, SaysWhatIsWrong) {
  EXPECT_EQ(validate(Image{.pip = {"--index-url"}}).error().message,
            "Image(pip=[\"--index-url\"]) is not a package requirement");
  const auto hint = [](const char* package) {
    return validate(Image{.pip = {package}}).error().hint;
  };
  for (const char* list : {"requirements.txt", "-r requirements.txt", "pyproject.toml"}) {
    EXPECT_TRUE(hint(list).contains("packages that the file lists")) << list;
  }
  for (const char* file : {"own-1-py3-none-any.whl", "own-1.tar.gz", "own.whl[gpu]"}) {
    EXPECT_TRUE(hint(file).contains("an absolute path")) << file;
  }
  EXPECT_TRUE(hint("-e /srv/own").contains("includes"));
  EXPECT_EQ(validate(Image{.python = "3"}).error().message,
            "Image(python=\"3\") is not a Python version");
  // A password in an index address never reaches a message.
  EXPECT_FALSE(validate(Image{.pip_extra_index_url = "https://u:secret @h"})
                   .error()
                   .message.contains("secret"));
  EXPECT_EQ(validate(Image{.pip = {"x @ https://me:se/c$ret@h/x.whl"}}).error().message,
            "Image(pip=[\"x @ https://***@h/x.whl\"]) is not a package requirement");
}

TEST(ShellQuote, OneWordThatTheShellReadsBack) {
  EXPECT_EQ(shell_quote("plain-1.0_x"), "plain-1.0_x");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("a b"), "'a b'");
  EXPECT_EQ(shell_quote("it's"), "'it'\\''s'");
}

}  // namespace
}  // namespace skyward
