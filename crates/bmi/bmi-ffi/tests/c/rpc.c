/*
 * The pattern of an RPC library over BMI: an unexpected request answered by an expected message with the
 * request's tag, one context for the program and one for the library, a progress loop that tests for
 * unexpected messages and then a context, cancelled operations, and messages of the longest length.
 */
#include "../../examples/common.h"

#define CALLS 20
#define LAST_TAG 1000
#define NEVER_TAG 77

/* One turn of the progress loop. Returns the user value of the operation that completed in a context. */
static void *progress(bmi_context_id context, bmi_error_code_t *error, bmi_size_t *actual)
{
    bmi_op_id_t id = 0;
    void *user = NULL;
    int outcount = 0;

    CHECK(BMI_testcontext(1, &id, &outcount, error, actual, &user, 200, context) >= 0);
    return outcount == 1 ? user : NULL;
}

static void serve(const char *address)
{
    bmi_context_id context;
    int served = 0;
    int sending = 0;
    int last = 0;

    start_server(address);
    CHECK(BMI_open_context(&context) == 0);
    while (!last || sending > 0) {
        struct BMI_unexpected_info request;
        bmi_error_code_t error = 0;
        bmi_size_t actual = 0;
        bmi_op_id_t id = 0;
        int outcount = 0;
        void *answer;
        int posted;

        CHECK(BMI_testunexpected(1, &outcount, &request, 0) >= 0);
        if (outcount == 0) {
            answer = progress(context, &error, &actual);
            if (answer != NULL) {
                CHECK(error == 0);
                free(answer);
                sending--;
            }
            continue;
        }
        CHECK(request.error_code == 0);
        last |= request.tag == LAST_TAG;
        answer = malloc((size_t)request.size + 1);
        CHECK(answer != NULL);
        memcpy(answer, request.buffer, (size_t)request.size);
        posted = BMI_post_send(&id, request.addr, answer, request.size, BMI_EXT_ALLOC, request.tag,
                               answer, context, NULL);
        CHECK(posted >= 0);
        CHECK(BMI_unexpected_free(request.addr, request.buffer) == 0);
        if (posted == 1) {
            free(answer);
        } else {
            sending++;
        }
        served++;
    }
    CHECK(served == CALLS + 1);
    BMI_close_context(context);
    CHECK(BMI_finalize() == 0);
}

/* Posts the receive of the answer before the request. */
static void call(BMI_addr_t server, const char *request, char *answer, bmi_size_t size, bmi_msg_tag_t tag,
                 bmi_context_id context, bmi_context_id other)
{
    bmi_op_id_t receives = 0;
    bmi_op_id_t sends = 0;
    bmi_size_t actual = 0;
    bmi_error_code_t error = 0;
    int receiving = BMI_post_recv(&receives, server, answer, size, &actual, BMI_EXT_ALLOC, tag, answer,
                                  context, NULL);
    int sending = BMI_post_sendunexpected(&sends, server, request, size, BMI_EXT_ALLOC, tag,
                                          (void *)answer, other, NULL);

    CHECK(receiving >= 0);
    wait_for(sending, sends, size, answer, other);
    while (receiving == 0) {
        receiving = progress(context, &error, &actual) == answer;
        CHECK(error == 0);
    }
    CHECK(actual == size && memcmp(request, answer, (size_t)size) == 0);
}

/* A receive that nothing matches is cancelled and collected, by either kind of test. */
static void cancel(BMI_addr_t server, bmi_context_id context, int by_id)
{
    bmi_op_id_t id = 0;
    bmi_size_t actual = 0;
    bmi_error_code_t error = 0;
    void *user = NULL;
    int outcount = 0;
    char room = 'r';

    CHECK(BMI_post_recv(&id, server, &room, 1, &actual, BMI_EXT_ALLOC, NEVER_TAG, &room, context,
                        NULL) == 0);
    CHECK(BMI_cancel(id, context) == 0);
    while (user == NULL) {
        if (by_id) {
            CHECK(BMI_test(id, &outcount, &error, &actual, &user, 200, context) >= 0);
        } else {
            user = progress(context, &error, &actual);
        }
    }
    CHECK(user == &room && error == -BMI_ECANCEL && room == 'r');
    CHECK(BMI_cancel(id, context) == 0);
}

static void ask(const char *address)
{
    bmi_context_id contexts[2];
    BMI_addr_t server;
    char *request;
    char *answer;
    int limit = 0;
    int number;

    CHECK(BMI_initialize(NULL, NULL, 0) == 0);
    CHECK(BMI_open_context(&contexts[0]) == 0);
    CHECK(BMI_open_context(&contexts[1]) == 0 && contexts[0] != contexts[1]);
    CHECK(BMI_addr_lookup(&server, address) == 0);
    CHECK(BMI_get_info(server, BMI_GET_UNEXP_SIZE, &limit) == 0 && limit > 0);
    request = (char *)malloc((size_t)limit);
    answer = (char *)malloc((size_t)limit);
    CHECK(request != NULL && answer != NULL);
    memset(request, 'q', (size_t)limit);
    for (number = 0; number < CALLS; number++) {
        bmi_size_t size = number == 0 ? limit : number;

        request[0] = (char)number;
        call(server, request, answer, size, 1 + number, contexts[number % 2], contexts[1]);
        cancel(server, contexts[number % 2], number % 4 < 2);
    }
    call(server, request, answer, 1, LAST_TAG, contexts[0], contexts[0]);
    free(request);
    free(answer);
    BMI_close_context(contexts[0]);
    BMI_close_context(contexts[1]);
    CHECK(BMI_finalize() == 0);
}

int main(int argc, char **argv)
{
    /* The server of this program has its own loop for requests. */
    (void)await_unexpected;
    CHECK(argc == 3);
    if (strcmp(argv[1], "server") == 0) {
        serve(argv[2]);
    } else {
        ask(argv[2]);
    }
    return 0;
}
