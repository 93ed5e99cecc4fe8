"""The sceptic: everything that could be wrong with a run, tried. One file for each check.

    files     are model and data those that were certified?
    counts    do stored counts give the stored radii, and the recorded seeds the stored counts?
    noise     is the noise what the theorem assumes: no repeats, right moments, nothing shared?
    batches   do scores depend on the batch?
    fresh     do certificates stand a test with noise that they have not seen?
    attack    does the label change inside a certified radius, where one looks for that?
    accuracy  on request: how accurate is the smoothed classifier at attacked points?

`_chance.py` says how sure the audit is before it accuses. Nothing of the engine is used.
"""
