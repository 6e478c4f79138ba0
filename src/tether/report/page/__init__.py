"""`tether report --html`: one page with everything in it, to open from a disk or a mail.

content.py   what the page says, section by section
across.py    all tasks together, and a method's runs on all of them
cells.py     a number that leads to its runs, and what stands below a table
charts.py    lines with bands, and histograms, as inline SVG
runs.py      what is behind a number: settings, command, versions, hashes
page.css     light, dark, and narrow
page.js      the filter by task, light and dark, and lines that can be switched off
"""
