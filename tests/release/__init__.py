"""What is given away: `__main__` builds and checks it (`make dist`), `upgrade` goes over to it from
an earlier commit (`make upgrade`); `environments` are where wheels are installed."""
