/* What a compiler may call even where there is no C library. */
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
int memcmp(const void *one, const void *other, size_t bytes);

/* Hides a loop from the compiler, which would make a call of memcpy or memset of it. */
#define OPAQUE(pointer) __asm__ volatile("" : "+r"(pointer))

void *memcpy(void *to, const void *from, size_t bytes)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    for (; bytes > 0U; --bytes) {
        *out++ = *in++;
        OPAQUE(out);
    }
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    if ((uintptr_t)out <= (uintptr_t)in) {
        return memcpy(to, from, bytes);
    }
    for (; bytes > 0U; --bytes) {
        out[bytes - 1U] = in[bytes - 1U];
        OPAQUE(out);
    }
    return to;
}

void *memset(void *to, int byte, size_t bytes)
{
    uint8_t *out = to;
    for (; bytes > 0U; --bytes) {
        *out++ = (uint8_t)byte;
        OPAQUE(out);
    }
    return to;
}

int memcmp(const void *one, const void *other, size_t bytes)
{
    const uint8_t *a = one;
    const uint8_t *b = other;
    for (; bytes > 0U; --bytes, ++a, ++b) {
        if (*a != *b) {
            return (int)*a - (int)*b;
        }
    }
    return 0;
}
