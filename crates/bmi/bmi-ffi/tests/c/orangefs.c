/* What only the OrangeFS dialect has. */
#include <string.h>

#include "bmi.h"

int main(void)
{
    int (*initialize)(const char *, const char *, int, char *) = BMI_initialize;
    int (*lookup)(BMI_addr_t *, const char *, char *) = BMI_addr_lookup;
    BMI_addr_t address = 0;
    char *methods = NULL;
    int same = 1;

    same &= initialize(NULL, NULL, 0, NULL) == BMI_SUCCESS;
    same &= lookup(&address, "tcp://127.0.0.1:1", NULL) == 0;
    same &= strcmp(bmi_status_string(0), "BMI_SUCCESS") == 0;
    same &= strcmp(bmi_status_string(BMI_EINVAL), "BMI_EINVAL") == 0;
    same &= strcmp(bmi_status_string(-BMI_ECANCEL), "BMI_ECANCEL") == 0;
    same &= strcmp(bmi_status_string(4711), "(UNKNOWN)") == 0;
    same &= BMI_get_info(0, BMI_TRANSPORT_METHODS_STRING, &methods) > 0;
    free(methods);
    same &= BMI_finalize() == 0;
    return !same;
}
