/* A stand-in for the library of gdrcopy: its name is all that is looked at. */
int gdrapi_stand_in(void);

int gdrapi_stand_in(void) {
    return 0;
}
