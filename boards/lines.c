/* The line protocol (docs/runner.md): what the program sends and gets, as lines of text. */
#include "board.h"

enum { SENT_BYTES = 256, RESULT_BYTES = 64 };

static const char digits[] = "0123456789abcdef";

static uint32_t value_of(int character)
{
    for (uint32_t value = 0; value < 16U; ++value) {
        if (digits[value] == character) {
            return value;
        }
    }
    return 16U;
}

/* Reads a digit; line breaks before it are passed over. */
static uint32_t read_digit(void)
{
    int character = board_get();
    while (character == '\n' || character == '\r') {
        character = board_get();
    }
    const uint32_t value = value_of(character);
    if (value > 15U) {
        board_fail("what was sent is not in hexadecimal digits");
    }
    return value;
}

static void put_number(const char *before, uint32_t number)
{
    char text[12];
    char *at = &text[sizeof text - 1U];
    *at = '\0';
    *--at = '\n';
    do {
        *--at = digits[number % 10U];
        number /= 10U;
    } while (number > 0U);
    board_put(before);
    board_put(at);
}

void board_read(void *to, uint32_t bytes)
{
    uint8_t *out = to;
    while (bytes > 0U) {
        const uint32_t count = (bytes < SENT_BYTES) ? bytes : SENT_BYTES;
        /* Nothing is sent unless asked for, so that no receiver has to keep more than a line. */
        put_number("dlb send ", count);
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t high = read_digit();
            *out++ = (uint8_t)(16U * high + read_digit());
        }
        bytes -= count;
    }
}

void board_write(const void *from, uint32_t bytes)
{
    const uint8_t *in = from;
    while (bytes > 0U) {
        const uint32_t count = (bytes < RESULT_BYTES) ? bytes : RESULT_BYTES;
        char text[2 * RESULT_BYTES + 2];
        char *at = text;
        for (uint32_t i = 0; i < count; ++i) {
            *at++ = digits[in[i] / 16U];
            *at++ = digits[in[i] % 16U];
        }
        *at++ = '\n';
        *at = '\0';
        board_put("dlb data ");
        board_put(text);
        in += count;
        bytes -= count;
    }
}

void board_fill(void *at, uint8_t byte, uint32_t bytes)
{
    for (volatile uint8_t *out = at; bytes > 0U; --bytes) {
        *out++ = byte;
    }
}

void board_fail(const char *why)
{
    board_put("dlb fail ");
    board_put(why);
    board_put("\n");
    board_exit(1);
}

extern uint32_t board_stack_limit[]; /* the linker's */
extern uint32_t *board_stack_top;    /* of the painted part, set by board_stack_paint */
extern const uint32_t board_stack_colour;

void board_stack_report(void)
{
    const uint32_t *at = board_stack_limit;
    while (at < board_stack_top && *at == board_stack_colour) {
        ++at;
    }
    put_number("dlb stack ", (uint32_t)((uintptr_t)board_stack_top - (uintptr_t)at));
}

int main(void)
{
    board_mark(0);
    board_put("dlb ready 1\n");
    const int status = board_program();
    put_number("dlb done ", (uint32_t)status);
    return status;
}
