"""The report as a page: records in, HTML out. Nothing here asks Spark, reads a file or a clock.

`model` has the records, `page` the page and the order of its sections; `charts`, `tables` and
`stories` draw, with `scales`, `marks` and `style`; `findings` says what to look at first.
A new section is a record in `model`, its figures in `spark.asking.figures`, its drawing, and its
place in `page`.
"""
