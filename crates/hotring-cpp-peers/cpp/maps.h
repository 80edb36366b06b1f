// What a map in C++ looks like from Rust: tables of functions, one for words and one for byte strings.
// No exception leaves a function: out of memory ends the program.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

extern "C" {

// Pairs of 64-bit words.
struct Words {
    void *(*make)() noexcept;
    void (*drop)(void *map) noexcept;
    bool (*get)(void *map, uint64_t key, uint64_t *value) noexcept;
    void (*put)(void *map, uint64_t key, uint64_t value) noexcept;
    void (*remove)(void *map, uint64_t key) noexcept;
    void (*add)(void *map, uint64_t key, uint64_t by) noexcept;
};

// Shows a value where it lies.
typedef void (*See)(void *context, const uint8_t *value, size_t length);

// Pairs of byte strings.
struct Strings {
    void *(*make)() noexcept;
    void (*drop)(void *map) noexcept;
    bool (*get)(void *map, const uint8_t *key, size_t length, See see, void *context) noexcept;
    void (*put)(void *map, const uint8_t *key, size_t length, const uint8_t *value,
                size_t value_length) noexcept;
    void (*remove)(void *map, const uint8_t *key, size_t length) noexcept;
};
}

// The hash that the maps in Rust are given, too: one wide multiplication for each word.
inline uint64_t fold(uint64_t state, uint64_t word) {
    unsigned __int128 wide = state ^ word ^ 0x243f6a8885a308d3;
    wide *= 0x9e3779b97f4a7c15;
    return static_cast<uint64_t>(wide >> 64) ^ static_cast<uint64_t>(wide);
}

struct Fold {
    size_t operator()(uint64_t key) const { return fold(0, key); }

    size_t operator()(const std::string &key) const {
        uint64_t state = 0;
        for (size_t at = 0; at < key.size(); at += 8) {
            uint64_t word = 0;
            std::memcpy(&word, key.data() + at, key.size() - at < 8 ? key.size() - at : 8);
            state = fold(state, word);
        }
        return state;
    }
};

inline std::string text(const uint8_t *bytes, size_t length) {
    return std::string(reinterpret_cast<const char *>(bytes), length);
}

inline void show(const std::string &value, See see, void *context) {
    see(context, reinterpret_cast<const uint8_t *>(value.data()), value.size());
}
