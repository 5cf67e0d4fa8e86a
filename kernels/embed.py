"""Write an assembler file that makes a fatbin a constant of the library, in the section where tools look for fatbins.

    embed.py FAMILY FATBIN OUTPUT
"""
import pathlib
import sys

family, fatbin, output = sys.argv[1:]
pathlib.Path(output).write_text(f"""\
.section .note.GNU-stack, "", %progbits
.section .nv_fatbin, "a", %progbits
.balign 64
.globl cushim_fatbin_{family}
.hidden cushim_fatbin_{family}
.type cushim_fatbin_{family}, %object
cushim_fatbin_{family}:
.incbin "{pathlib.Path(fatbin).resolve()}"
.size cushim_fatbin_{family}, . - cushim_fatbin_{family}
""")
