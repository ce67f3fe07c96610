//! The cases of the transcripts that a server with a memory pool answers otherwise than memcached.

/// Why, and the cases. All others are answered as by a server with a store.
pub const NOT_APPLICABLE: &[(&str, &[&str])] = &[
    (
        "a pool cannot be flushed",
        &[
            "admin.txt: flush_all empties the cache at once",
            "admin.txt: flush_all by zero and below is at once",
            "admin.txt: add after flush_all finds nothing",
            "noreply.txt: flush_all",
            "binary.txt: flush",
        ],
    ),
    (
        "the memory limit is that of the memory node",
        &["admin.txt: the memory limit"],
    ),
    ("the number of items is not known", &["admin.txt: stats"]),
    (
        "a pool has no list of items",
        &[
            "crawler.txt: metadump of no item",
            "crawler.txt: metadump of an item",
            "crawler.txt: metadump of an item that expires, with flags and a key in base64",
            "crawler.txt: mgdump",
            "crawler.txt: an expired item is not listed",
        ],
    ),
    (
        "numbers are stored without padding, and only digits are numbers",
        &[
            "arithmetic.txt: a shorter number is padded with spaces",
            "arithmetic.txt: a padded number wraps",
            "arithmetic.txt: leading zeros go",
            "arithmetic.txt: a number behind spaces, a sign and zeros",
            "meta_arithmetic.txt: wraps and stops",
            "binary_arithmetic.txt: decr pads with spaces",
        ],
    ),
    (
        "a number is read from an item of any length",
        &["large.txt: in a longer item it is none"],
    ),
    (
        "a touch stores the value again, with another CAS",
        &[
            "cas.txt: reading and touching keep the number",
            "binary.txt: touch replies with flags and CAS",
            "binary.txt: get and touch",
        ],
    ),
    (
        "a touch returns the new time to live only",
        &["meta_get.txt: T gives a new time to live"],
    ),
    (
        "whether a key was sent in base64 is not stored",
        &[
            "meta_get.txt: k is the key as it was stored",
            "meta_set.txt: a key in base64",
        ],
    ),
    (
        "arithmetic changes no time to live (flag T)",
        &[
            "meta_arithmetic.txt: N with a first value and a time to live",
            "meta_arithmetic.txt: what is true when its turn comes",
            "meta_arithmetic.txt: N and T of what is created: t shows what holds when its turn comes",
        ],
    ),
    (
        "the CAS is compared only to set, replace and delete (flag C)",
        &[
            "meta_arithmetic.txt: C changes what was read",
            "meta_set.txt: C of a missing item",
            "meta_set.txt: C holds for append too",
            "meta_set.txt: N and C of append",
            "binary.txt: append and prepend compare the CAS",
            "binary_arithmetic.txt: arithmetic compares the CAS",
        ],
    ),
    (
        "the pool gives items their CAS itself (flag E)",
        &[
            "meta_arithmetic.txt: E names the number",
            "meta_debug.txt: what it shows is not changed by it",
            "meta_debug.txt: a key in base64",
            "meta_delete.txt: I leaves the item, stale",
            "meta_delete.txt: x leaves the item, empty",
            "meta_delete.txt: x with flags, a time to live and a number",
            "meta_delete.txt: x and I together",
            "meta_delete.txt: x of a missing item, and of one that has changed",
            "meta_set.txt: E names the number",
            "meta_set.txt: I stores what comes too late, as stale",
            "meta_set.txt: I does not help who comes from the future",
            "meta_set.txt: a plain write ends staleness",
            "meta_set.txt: what is joined to a stale value ends staleness",
            "meta_set.txt: arithmetic leaves a value stale, unless the number becomes longer",
        ],
    ),
    (
        "reads are not recorded (me, flags h and l)",
        &[
            "meta_debug.txt: a miss",
            "meta_debug.txt: a hit",
            "meta_debug.txt: b counts as the first flag of several",
            "meta_debug.txt: wrong lines",
            "meta_get.txt: N creates what is missing, and its creator has the token",
            "meta_get.txt: h says whether it has been read",
            "meta_get.txt: arithmetic leaves what has been read as read, unless the number becomes longer",
        ],
    ),
    (
        "no item is stale or claimed (flags I, N and R)",
        &[
            "meta_delete.txt: I with a time to live and a number",
            "meta_delete.txt: I again lets the next reader win",
            "meta_delete.txt: I of a missing item, and of one that has changed",
            "meta_delete.txt: x ends staleness",
            "meta_delete.txt: I and x of a large value",
            "meta_get.txt: N without a time to live, and one that is over",
            "meta_get.txt: N and T: the later one stays, and t shows what holds when its turn comes",
            "meta_get.txt: N with a number of its own, and C that is it",
            "meta_get.txt: N holds its token until the item is written",
            "meta_get.txt: R gives one reader the token before the item expires",
            "meta_get.txt: R looks at the time to live that a T before it gives",
            "meta_get.txt: R of what never expires, and R without a time",
            "meta_get.txt: R and N: what is created has its winner",
            "meta_get.txt: R of a stale item",
            "meta_get.txt: a new item made of an old one has its key as it is",
        ],
    ),
];
