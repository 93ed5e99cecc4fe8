# An auditor is handed a run, its model and a public key. She believes nothing that she can check.

# What she is handed; the maker did this.
smoothcert train --data digits --arch mlp --sigma 0.25 --epochs 4 --batch 64 --schedule one_cycle --threads 1 --out handed/model
smoothcert certify handed/model --data digits --max 20 --sigma 0.25 --n 1000 --out handed/run
smoothcert sign --new-key alice.key
smoothcert sign handed/run --key alice.key

# Is the run what it says? Every radius follows from its counts, every input is drawn again, and alice signed it.
smoothcert verify handed/run --redraw all --trust alice.key.pub

# Is what it says true? Attacks inside the radii, fresh draws, the noise itself.
smoothcert audit handed/run --inputs 5 --n 500 --draws 16 --steps 3

# Somebody adds a tenth to every radius. The run is no longer the one that was written.
cp -r handed/run larger
python -c "import sqlite3; db = sqlite3.connect('larger/certificates.sqlite'); db.execute('UPDATE certificates SET radius = radius + 0.1'); db.commit()"
smoothcert verify larger --redraw 0   # exits 1: the rows are not as they were written

# Somebody changes what was asked. The rows were made by another recipe.
cp -r handed/run looser
sed -i 's/alpha = 0.001/alpha = 0.01/' looser/recipe.toml
smoothcert verify looser   # exits 2: the recipe has been changed
