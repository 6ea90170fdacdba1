/* Beside a page that reads without it: keys, and the proofs of this page recomputed from its own bytes. */
'use strict';

/* The bytes that an element shows: its characters as UTF-8, and each marked escape as what it stands for. */
function bytes(element) {
	const out = [];
	const encoder = new TextEncoder();

	for (const node of element.childNodes) {
		if (node.nodeType === 3) {
			out.push(encoder.encode(node.data));
		} else {
			const hex = node.textContent.match(/\\x[0-9a-f]{2}/g) || [];

			out.push(Uint8Array.from(hex, (h) => parseInt(h.slice(2), 16)));
		}
	}
	return join(out);
}

function join(parts) {
	const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
	let at = 0;

	for (const p of parts) {
		all.set(p, at);
		at += p.length;
	}
	return all;
}

const unhex = (text) => Uint8Array.from(text.match(/../g) || [], (h) => parseInt(h, 16));
const hex = (b) => Array.from(b, (x) => x.toString(16).padStart(2, '0')).join('');

async function sha256(prefix, ...parts) {
	return new Uint8Array(await crypto.subtle.digest('SHA-256', join([Uint8Array.of(prefix), ...parts])));
}

/* RFC 6962 2.1.1, from the leaf upwards. */
async function root(leaf, index, size, path) {
	let at = index;
	let last = size - 1;
	let hash = leaf;

	for (const p of path) {
		if (last === 0)
			return null;
		if (at % 2 === 1 || at === last) {
			hash = await sha256(1, p, hash);
			while (at % 2 === 0 && at !== 0) {
				at = Math.floor(at / 2);
				last = Math.floor(last / 2);
			}
		} else {
			hash = await sha256(1, hash, p);
		}
		at = Math.floor(at / 2);
		last = Math.floor(last / 2);
	}
	return last === 0 ? hash : null;
}

async function one(item, size, want) {
	const record = item.querySelector('.rec');
	const path = item.querySelector('.path');
	const leaf = await sha256(0, bytes(record));

	if (hex(leaf) !== item.querySelector('.leaf').textContent)
		return 'bytes';
	if (path === null)
		return 'unsigned';
	const got = await root(leaf, Number(item.id.slice(1)), size, path.textContent.split('\n').filter(Boolean).map(unhex));
	return got !== null && hex(got) === want ? 'ok' : 'proof';
}

async function check() {
	const said = document.getElementById('checked');
	const size = Number(document.getElementById('size').textContent);
	const want = document.getElementById('root').textContent;
	const n = { ok: 0, unsigned: 0, bytes: 0, proof: 0 };

	for (const item of document.querySelectorAll('.item')) {
		const what = await one(item, size, want);

		n[what]++;
		item.classList.toggle('broken', what === 'bytes' || what === 'proof');
	}
	said.className = n.bytes + n.proof === 0 ? 'good' : 'bad';
	said.textContent = `${n.ok} records lead to the root of size ${size}` +
		(n.unsigned !== 0 ? `, ${n.unsigned} are not covered by it` : '') +
		(n.bytes + n.proof !== 0 ? `, ${n.bytes + n.proof} DO NOT: this page was changed` : '');
}

/* The next item that `wanted` takes, from the one that has the focus or stands at the top. */
function move(step, wanted) {
	const items = Array.from(document.querySelectorAll('.item')).filter((i) => i.checkVisibility() && wanted(i));
	const held = document.activeElement ? document.activeElement.closest('.item') : null;
	const from = held ? Number(held.id.slice(1)) : -1;
	const seq = (i) => Number(i.id.slice(1));
	const next = step > 0 ? items.find((i) => seq(i) > from) : items.findLast((i) => seq(i) < from);

	if (next) {
		next.focus();
		next.scrollIntoView({ block: 'nearest' });
	}
}

const keys = {
	j: () => move(1, () => true),
	k: () => move(-1, () => true),
	x: () => move(1, (i) => i.matches('.deny, .lost') || i.querySelector('.doubt, .gap') !== null),
	o: () => {
		const item = document.activeElement ? document.activeElement.closest('.item') : null;
		const d = item ? item.querySelector('details') : null;

		if (d)
			d.open = !d.open;
	},
};

document.addEventListener('keydown', (e) => {
	if (!e.ctrlKey && !e.altKey && !e.metaKey && Object.hasOwn(keys, e.key))
		keys[e.key]();
});
document.addEventListener('DOMContentLoaded', () => {
	const button = document.getElementById('check');

	if (!document.getElementById('root') || !window.crypto || !crypto.subtle)
		return;
	button.hidden = false;
	button.addEventListener('click', check);
});
