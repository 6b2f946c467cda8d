"""The report as a page: records in, HTML out. Nothing here asks Spark, reads a file or a clock.

`model` has the records, `page` the page, `sections` what stands on it; `charts`, `tables` and
`stories` draw, `happened` tells what befell the grid and what changed, with `scales`, `marks` and
`style`; `findings` says what to look at first; `words` is the language of the page, `japanese` one.
A new section is a record in `model`, its figures in `spark.asking.figures`, its drawing, and its
place in `page`.
"""
