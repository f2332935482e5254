// SPDX-License-Identifier: Apache-2.0
#include "fatbin/image.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "fatbin/cubin.h"
#include "fatbin/elf_file.h"
#include "fatbin/host_elf.h"

namespace ckpt::fatbin {

// Makes an Image from a source; one function for each form that the bytes may have.
class ImageBuilder {
 public:
  explicit ImageBuilder(std::unique_ptr<Source> source) { image_.source_ = std::move(source); }

  Result<Image> file(const FileSource &file);
  Result<Image> bytes(ByteView all);
  Result<Image> wrapper(u64 at);
  Result<Image> container(u64 at);
  Result<Image> memory_elf(u64 at);
  Result<Image> ptx(u64 at, u64 bytes);

 private:
  const Source &source() const { return *image_.source_; }
  Result<Image> containers(u64 size);
  Result<Image> elf(const ElfFile &file);
  Result<Image> cubin(const Elf64_Ehdr &header, u64 at, u64 bytes);
  Result<Image> single(Form form, Entry entry);

  Image image_;
  HeaderBudget budget_;
};

namespace {

constexpr std::string_view kPtxMarker = ".target";
constexpr size_t kPtxHeadBytes = 256u << 10;  // where the marker is expected, behind comments

constexpr std::string_view kArchiveMagic = "!<arch>\n";

bool is_archive(const Source &source) {
  Result<std::array<char, 8>> head = source.record<std::array<char, 8>>(0);
  return head && std::string_view(head->data(), head->size()) == kArchiveMagic;
}

Failure unknown_form(const Source &source) {
  if (is_archive(source))
    return fail_with_hint("this is an archive of objects, and archives are not supported",
                          "extract its objects with `ar x` and examine each of them");
  return fail_with_hint(
      "not an ELF file, a fat binary or PTX",
      "give an executable, a shared library, an object, a .fatbin, a .cubin or a .ptx file");
}

u32 magic_at(const Source &source) {
  Result<u32> magic = source.record<u32>(0);
  return magic ? *magic : 0;
}

bool is_elf(u32 magic) { return std::memcmp(&magic, ELFMAG, SELFMAG) == 0; }

bool looks_like_ptx(const Source &source) {
  std::string head(static_cast<size_t>(std::min<u64>(source.size(), kPtxHeadBytes)), '\0');
  if (!source.read(0, std::as_writable_bytes(std::span(head)))) return false;
  return head.find(kPtxMarker) < head.find('\0');
}

u32 arch_of_ptx(std::string_view text) {
  size_t at = text.find("sm_", text.find(kPtxMarker));
  u32 arch = 0;
  for (at += 3; at < text.size() && arch < 10000 && std::isdigit(static_cast<u8>(text[at])); ++at)
    arch = arch * 10 + static_cast<u32>(text[at] - '0');
  return arch;
}

// The length of an ELF file in memory, which libelf needs: where the last of what its headers
// describe ends.
Result<u64> elf_bytes(const Source &source, u64 at) {
  CKPT_TRY(Elf64_Ehdr h, source.record<Elf64_Ehdr>(at));
  if (h.e_shentsize != sizeof(Elf64_Shdr))
    return fail("the ELF header is damaged: a section header has {} bytes", h.e_shentsize);
  u64 end = std::max(h.e_shoff + u64{h.e_shnum} * sizeof(Elf64_Shdr),
                     h.e_phoff + u64{h.e_phnum} * sizeof(Elf64_Phdr));
  for (u64 i = 0; i < h.e_shnum; ++i) {
    CKPT_TRY(Elf64_Shdr s, source.record<Elf64_Shdr>(at + h.e_shoff + i * sizeof(Elf64_Shdr)));
    if (s.sh_type != SHT_NOBITS) end = std::max(end, s.sh_offset + s.sh_size);
  }
  return end;
}

}  // namespace

Result<Image> ImageBuilder::file(const FileSource &file) {
  u32 magic = magic_at(file);
  if (is_elf(magic)) {
    CKPT_TRY(ElfFile e, ElfFile::from(file));
    return elf(e);
  }
  if (magic == kContainerMagic) return containers(file.size());
  return looks_like_ptx(file) ? ptx(0, file.size()) : Result<Image>(unknown_form(file));
}

Result<Image> ImageBuilder::bytes(ByteView all) {
  u32 magic = magic_at(source());
  if (is_elf(magic)) {
    CKPT_TRY(ElfFile e, ElfFile::from(all));
    return elf(e);
  }
  if (magic == kContainerMagic) return containers(all.size());
  return looks_like_ptx(source()) ? ptx(0, all.size()) : Result<Image>(unknown_form(source()));
}

Result<Image> ImageBuilder::containers(u64 size) {
  CKPT_TRY(image_.containers_, read_containers(source(), 0, size, budget_));
  image_.form_ = Form::FatBinary;
  return std::move(image_);
}

Result<Image> ImageBuilder::container(u64 at) {
  CKPT_TRY(Container c, read_container(source(), at, source().size() - at, budget_));
  image_.containers_.push_back(std::move(c));
  image_.form_ = Form::FatBinary;
  return std::move(image_);
}

Result<Image> ImageBuilder::wrapper(u64 at) {
  CKPT_TRY(WrapperRecord w, source().record<WrapperRecord>(at));
  CKPT_CHECK(container(reinterpret_cast<u64>(w.data)).map([&](Image i) { image_ = std::move(i); }));
  image_.form_ = Form::Wrapper;
  if (w.version != kLinkedWrapper || !w.units) return std::move(image_);
  u64 next = reinterpret_cast<u64>(w.units);
  for (size_t i = 0; i < kMaxUnits; ++i, next += sizeof(u64)) {
    CKPT_TRY(u64 unit, source().record<u64>(next));
    if (unit == 0) return std::move(image_);
    CKPT_TRY(Container c, read_container(source(), unit, source().size() - unit, budget_));
    c.role = Role::Unit;
    image_.containers_.push_back(std::move(c));
  }
  return fail("the linked fat binary has more than {} translation units, which is the limit",
              kMaxUnits);
}

Result<Image> ImageBuilder::elf(const ElfFile &file) {
  if (file.header().e_machine == kCudaMachine) return cubin(file.header(), 0, source().size());
  CKPT_TRY(HostElf host, read_host(file, source()));
  image_.form_ = host.form;
  image_.containers_ = std::move(host.containers);
  image_.runtime_ = std::move(host.runtime);
  return std::move(image_);
}

Result<Image> ImageBuilder::memory_elf(u64 at) {
  CKPT_TRY(Elf64_Ehdr header, source().record<Elf64_Ehdr>(at));
  if (header.e_machine != kCudaMachine) return fail("an ELF file but not a cubin");
  CKPT_TRY(u64 bytes, elf_bytes(source(), at));
  return cubin(header, at, bytes);
}

Result<Image> ImageBuilder::cubin(const Elf64_Ehdr &header, u64 at, u64 bytes) {
  return single(Form::Cubin, {.kind = Kind::Elf,
                              .arch = arch_of_cubin(header),
                              .at = at,
                              .stored_bytes = bytes,
                              .bytes = bytes});
}

Result<Image> ImageBuilder::ptx(u64 at, u64 bytes) {
  std::string head(static_cast<size_t>(std::min<u64>(bytes, kPtxHeadBytes)), '\0');
  CKPT_CHECK(source().read(at, std::as_writable_bytes(std::span(head))));
  if (head.find(kPtxMarker) == std::string::npos) return unknown_form(source());
  return single(Form::Ptx, {.kind = Kind::Ptx,
                            .arch = arch_of_ptx(head),
                            .at = at,
                            .stored_bytes = bytes,
                            .bytes = bytes});
}

Result<Image> ImageBuilder::single(Form form, Entry entry) {
  Container c{.at = entry.at, .bytes = entry.bytes};
  c.entries.push_back(std::move(entry));
  image_.containers_.push_back(std::move(c));
  image_.form_ = form;
  return std::move(image_);
}

const char *name_of(Form form) {
  switch (form) {
    case Form::Executable: return "executable";
    case Form::SharedLibrary: return "shared library";
    case Form::Object: return "object";
    case Form::FatBinary: return "fat binary";
    case Form::Wrapper: return "wrapper";
    case Form::Cubin: return "cubin";
    case Form::Ptx: break;
  }
  return "ptx";
}

const char *name_of(Runtime runtime) {
  switch (runtime) {
    case Runtime::Shared: return "shared";
    case Runtime::Static: return "static";
    case Runtime::Itself: return "itself";
    case Runtime::Unlinked: return "unlinked";
    case Runtime::None: break;
  }
  return "none";
}

Result<Image> Image::open(const std::string &path) {
  CKPT_TRY(std::unique_ptr<FileSource> source, FileSource::open(path));
  const FileSource &file = *source;
  Result<Image> image = ImageBuilder(std::move(source)).file(file);
  if (!image) return Failure(std::move(image).error().in(path));
  return image;
}

Result<Image> Image::in_memory(const void *code) {
  if (!code) return fail("a null pointer does not refer to device code");
  ImageBuilder builder(std::make_unique<AddressSpace>());
  u64 at = reinterpret_cast<u64>(code);
  u32 magic = 0;
  // A text may end within the first four bytes; nothing behind its NUL may be read.
  std::memcpy(&magic, code, ::strnlen(static_cast<const char *>(code), sizeof magic));
  if (magic == kWrapperMagic) return builder.wrapper(at);
  if (magic == kContainerMagic) return builder.container(at);
  if (is_elf(magic)) return builder.memory_elf(at);
  return builder.ptx(at, std::strlen(static_cast<const char *>(code)));
}

Result<Image> Image::from_bytes(ByteView bytes) {
  return ImageBuilder(std::make_unique<MemorySource>(bytes)).bytes(bytes);
}

}  // namespace ckpt::fatbin
