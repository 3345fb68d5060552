//! The names of the functions, macros and types that Kubernetes gives to CEL expressions.

/// What stands before the dot of a function: `optional.of`, `sets.contains`, …
pub const NAMESPACES: &str = "optional sets lists strings ip cidr format jsonpatch semver google";
/// Types that can stand as values, or be made.
pub const TYPE_NAMES: &str = "bool int uint double string bytes list map null_type type dyn optional_type";
/// Functions by what they give.
pub const BOOL_FUNCTIONS: &str = "has bool startsWith endsWith contains matches isSorted isURL isQuantity isIP isCIDR isSemver \
    isInteger isGreaterThan isLessThan containsIP containsCIDR allowed errored hasValue isCanonical \
    isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast equivalent \
    intersects";
pub const INT_FUNCTIONS: &str = "size int indexOf lastIndexOf compareTo sign asInteger getFullYear getMonth getDayOfYear \
    getDayOfMonth getDate getDayOfWeek getHours getMinutes getSeconds getMilliseconds family \
    prefixLength major minor patch";
pub const STRING_FUNCTIONS: &str = "string charAt lowerAscii upperAscii replace substring trim join format getScheme getHost getHostname \
    getPort getEscapedPath reason error escapeKey quote";
pub const OTHER_FUNCTIONS: &str = "uint double bytes type dyn duration timestamp sum min max split find findAll url getQuery quantity \
    add sub asApproximateFloat ip cidr masked semver group resource subresource namespace name path \
    serviceAccount fieldSelector labelSelector check value or orValue of none ofNonZeroValue validate \
    named reverse flatten distinct sort sortBy range slice first last unwrapOpt unwrap optMap optFlatMap all \
    exists exists_one existsOne map filter transformList transformMap transformMapEntry dns1123Label \
    dns1123Subdomain dns1035Label qualifiedName dns1123LabelPrefix dns1123SubdomainPrefix \
    dns1035LabelPrefix labelValue uri uuid byte date datetime";
/// Macros that give their first arguments as names to the last.
pub const MACROS: &str = "all exists exists_one existsOne map filter transformList transformMap transformMapEntry optMap sortBy \
    optFlatMap";

/// Whether the name is one of these words.
pub fn is_one_of(words: &str, name: &str) -> bool {
    words.split_ascii_whitespace().any(|word| word == name)
}
