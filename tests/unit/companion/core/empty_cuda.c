/* A library that is no driver. */
extern int cushim_test_nothing;
int cushim_test_nothing;
