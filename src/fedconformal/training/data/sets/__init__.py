"""The data sets, one file for each publisher."""
