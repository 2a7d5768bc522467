// How large this machine's caches are.
#pragma once

namespace jcw {

// Bytes of the second-level cache: of JCW_L2 where that is set, of the first processor where the system tells, or else 1 MB.
// Throws UsageError where JCW_L2 is no number of bytes from 64 KB to 1 GB.
double second_level_cache();

}  // namespace jcw
