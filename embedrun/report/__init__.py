"""The page of one run and the page over many, each one self-contained HTML file; two runs compared."""
