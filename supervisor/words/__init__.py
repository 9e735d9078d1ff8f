"""What people are told, in the same words wherever they look: the command line and the pages.

Pure text out of what the reader returns; how it is laid out and coloured is the surface's own.
"""
