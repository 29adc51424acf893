/* Here loops are as short as they are written. */
#define FOUR_TURNS()
