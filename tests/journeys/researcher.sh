# A researcher trains by two methods, certifies both on the same inputs, and wants a table, a curve and a fair comparison.

smoothcert train --data digits --arch mlp --sigma 0.25 --epochs 4 --batch 64 --schedule one_cycle --threads 1 --out models/gaussian
smoothcert train --data digits --arch mlp --objective consistency --sigma 0.25 --epochs 4 --batch 64 --schedule one_cycle --threads 1 --out models/consistency

smoothcert certify models/gaussian --data digits --max 40 --sigma 0.25 --n 1000 --out runs/gaussian
smoothcert certify models/consistency --data digits --max 40 --sigma 0.25 --n 1000 --out runs/consistency

# The table of the paper, the curve, and the difference with its intervals.
smoothcert report runs/gaussian runs/consistency --tables latex --plot curve
smoothcert compare runs/gaussian runs/consistency
ls curve.svg curve.png

# The same command again draws nothing new, and a log in the field's own format goes out and is read again.
smoothcert certify models/gaussian --data digits --max 40 --sigma 0.25 --n 1000 --out runs/gaussian
smoothcert export runs/gaussian --to cohen --out gaussian.tsv
smoothcert report gaussian.tsv --norm l2

# What is no run cannot be compared by mistake.
smoothcert compare runs/gaussian models/consistency   # exits 2: it holds no recipe.toml
