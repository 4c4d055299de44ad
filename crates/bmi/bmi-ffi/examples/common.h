/* Code that the example programs share: the ends of a conversation, and waiting for operations. */
#ifndef COMMON_H
#define COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bmi.h"

#define CHECK(condition)                                                             \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

/* Starts a server and prints the address that clients look up. */
static void start_server(const char *address)
{
    char method[64];
    const char *end = strstr(address, "://");
    int port = 0;

    CHECK(end != NULL && end - address < 32);
    strcpy(method, "bmi_");
    strncat(method, address, (size_t)(end - address));
    CHECK(BMI_initialize(method, address, BMI_INIT_SERVER | BMI_TCP_BIND_SPECIFIC) == 0);
    if (BMI_get_info(0, BMI_TCP_GET_PORT, &port) == 0) {
        printf("tcp://127.0.0.1:%d\n", port);
    } else {
        printf("%s\n", address);
    }
    fflush(stdout);
}

/* Waits for an operation, unless its post has completed it. Returns the number of bytes. */
static bmi_size_t wait_for(int posted, bmi_op_id_t id, bmi_size_t immediate, void *expected_user,
                         bmi_context_id context)
{
    int outcount = 0;
    bmi_error_code_t error = 0;
    bmi_size_t actual = 0;
    void *user = NULL;

    CHECK(posted >= 0);
    if (posted == 1) {
        CHECK(id == 0);
        return immediate;
    }
    while (outcount == 0) {
        CHECK(BMI_test(id, &outcount, &error, &actual, &user, 1000, context) >= 0);
    }
    CHECK(outcount == 1 && error == 0 && user == expected_user);
    return actual;
}

/* Waits for an unexpected message. */
static void await_unexpected(struct BMI_unexpected_info *info)
{
    int outcount = 0;

    while (outcount == 0) {
        CHECK(BMI_testunexpected(1, &outcount, info, 1000) >= 0);
    }
    CHECK(outcount == 1 && info->error_code == 0);
}

#endif
