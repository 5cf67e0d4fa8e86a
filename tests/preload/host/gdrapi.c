/* A stand-in for the library of gdrcopy.  Only its name matters. */
int gdrapi_stand_in(void);

int gdrapi_stand_in(void) {
    return 0;
}
