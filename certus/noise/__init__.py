"""① A distribution, and the certificate its theorem buys: one file each."""
