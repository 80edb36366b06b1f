// oneTBB's concurrent_hash_map.

#include <tbb/concurrent_hash_map.h>

#include "maps.h"

namespace {

template <class Key>
struct Compare {
    size_t hash(const Key &key) const { return Fold()(key); }
    bool equal(const Key &a, const Key &b) const { return a == b; }
};

using WordMap = tbb::concurrent_hash_map<uint64_t, uint64_t, Compare<uint64_t>>;
using StringMap = tbb::concurrent_hash_map<std::string, std::string, Compare<std::string>>;

WordMap &words(void *map) { return *static_cast<WordMap *>(map); }
StringMap &strings(void *map) { return *static_cast<StringMap *>(map); }

void *make_words() noexcept { return new WordMap; }
void drop_words(void *map) noexcept { delete &words(map); }

bool get_word(void *map, uint64_t key, uint64_t *value) noexcept {
    WordMap::const_accessor found;
    if (!words(map).find(found, key)) return false;
    *value = found->second;
    return true;
}

void put_word(void *map, uint64_t key, uint64_t value) noexcept {
    WordMap::accessor place;
    words(map).insert(place, key);
    place->second = value;
}

void remove_word(void *map, uint64_t key) noexcept { words(map).erase(key); }

void add_word(void *map, uint64_t key, uint64_t by) noexcept {
    WordMap::accessor found;
    if (words(map).find(found, key)) found->second += by;
}

void *make_strings() noexcept { return new StringMap; }
void drop_strings(void *map) noexcept { delete &strings(map); }

bool get_string(void *map, const uint8_t *key, size_t length, See see, void *context) noexcept {
    StringMap::const_accessor found;
    if (!strings(map).find(found, text(key, length))) return false;
    show(found->second, see, context);
    return true;
}

void put_string(void *map, const uint8_t *key, size_t length, const uint8_t *value,
                size_t value_length) noexcept {
    StringMap::accessor place;
    strings(map).insert(place, text(key, length));
    place->second.assign(reinterpret_cast<const char *>(value), value_length);
}

void remove_string(void *map, const uint8_t *key, size_t length) noexcept {
    strings(map).erase(text(key, length));
}

}  // namespace

extern "C" {
extern const Words hotring_tbb_words;
const Words hotring_tbb_words = {make_words, drop_words,  get_word,
                                 put_word,   remove_word, add_word};
extern const Strings hotring_tbb_strings;
const Strings hotring_tbb_strings = {make_strings, drop_strings, get_string, put_string,
                                     remove_string};
}
