// CRC-32 as zip files have it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace flambeau {

// The checksum of n bytes that follow those whose checksum is `before` (0 for none).
uint32_t crc32(uint32_t before, const uint8_t* bytes, size_t n);

}  // namespace flambeau
