# Marks the header's plain C comments for Doxygen.
1s,^/\* ,/** @file\n * ,
s,^/\* ---- (.*[^ -]) -+ \*/$,/** \\name \1 */,
s,^( *)/\* ([^-]),\1/** \2,
s,([;\,{]|[A-Za-z_0-9] = [0-9]+) +/\* ,\1 /**< ,
