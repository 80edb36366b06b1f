// libcuckoo's cuckoohash_map.

#include <libcuckoo/cuckoohash_map.hh>

#include "maps.h"

namespace {

using WordMap = libcuckoo::cuckoohash_map<uint64_t, uint64_t, Fold>;
using StringMap = libcuckoo::cuckoohash_map<std::string, std::string, Fold>;

WordMap &words(void *map) { return *static_cast<WordMap *>(map); }
StringMap &strings(void *map) { return *static_cast<StringMap *>(map); }

void *make_words() noexcept { return new WordMap; }
void drop_words(void *map) noexcept { delete &words(map); }

bool get_word(void *map, uint64_t key, uint64_t *value) noexcept {
    return words(map).find(key, *value);
}

void put_word(void *map, uint64_t key, uint64_t value) noexcept {
    words(map).insert_or_assign(key, value);
}

void remove_word(void *map, uint64_t key) noexcept { words(map).erase(key); }

void add_word(void *map, uint64_t key, uint64_t by) noexcept {
    words(map).update_fn(key, [by](uint64_t &value) { value += by; });
}

void *make_strings() noexcept { return new StringMap; }
void drop_strings(void *map) noexcept { delete &strings(map); }

bool get_string(void *map, const uint8_t *key, size_t length, See see, void *context) noexcept {
    return strings(map).find_fn(text(key, length), [see, context](const std::string &value) {
        show(value, see, context);
    });
}

void put_string(void *map, const uint8_t *key, size_t length, const uint8_t *value,
                size_t value_length) noexcept {
    strings(map).insert_or_assign(text(key, length), text(value, value_length));
}

void remove_string(void *map, const uint8_t *key, size_t length) noexcept {
    strings(map).erase(text(key, length));
}

}  // namespace

extern "C" {
extern const Words hotring_libcuckoo_words;
const Words hotring_libcuckoo_words = {make_words, drop_words,  get_word,
                                       put_word,   remove_word, add_word};
extern const Strings hotring_libcuckoo_strings;
const Strings hotring_libcuckoo_strings = {make_strings, drop_strings, get_string, put_string,
                                           remove_string};
}
