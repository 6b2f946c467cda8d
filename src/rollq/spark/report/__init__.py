"""The report as an HTML page: records in, HTML out. No Spark, files or clock here.

`model` has the records, `page` the page, `sections` its sections; `charts`, `tables` and `stories`
draw, `happened` renders incidents and the comparison of periods, with `scales`, `marks` and
`style`; `findings` has rules for the summary; `words` is the language of the page, `japanese` a
translation. A new section needs a record in `model`, its data in `spark.asking.figures`, its
drawing, and its place in `page`.
"""
