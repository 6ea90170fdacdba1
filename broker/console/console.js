/* Runs in people's browsers. The server writes the pages; this asks for them again when something
 * has changed, and carries what is to be signed to the person's authenticator and back. */
'use strict';

const $ = (id) => document.getElementById(id);
const base64 = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)));
const base64url = (bytes) => base64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
const hex = (bytes) => Array.from(new Uint8Array(bytes), (b) => b.toString(16).padStart(2, '0')).join('');
const unhex = (text) => Uint8Array.from(text.match(/../g), (b) => parseInt(b, 16));
const utf8 = (text) => new TextEncoder().encode(text);

let busy = false;

async function api(method, path, body) {
	const how = { method, headers: { 'X-Cofferdam': '1' }, credentials: 'same-origin', cache: 'no-store', redirect: 'error' };

	if (method === 'POST') {
		how.headers['Content-Type'] = 'application/json';
		how.body = JSON.stringify(body || {});
	}
	const answer = await fetch(path, how);
	const value = await answer.json();
	if (!answer.ok)
		throw Object.assign(new Error(value.detail || value.title), { status: answer.status });
	return value;
}

function say(text, good) {
	const at = $('said');

	if (!at)
		return;
	at.textContent = text;
	at.className = 'said' + (text === '' ? '' : good ? ' good' : ' bad');
}

/* One thing at a time; what goes wrong is said where the person looks. */
async function once(act) {
	if (busy)
		return;
	busy = true;
	document.querySelectorAll('button').forEach((b) => { b.disabled = true; });
	try {
		await act();
	} catch (e) {
		say(e.name === 'NotAllowedError' ? 'Nothing was signed: the passkey was not used.' : e.message, false);
	} finally {
		busy = false;
		document.querySelectorAll('button').forEach((b) => { b.disabled = false; });
	}
}

/* Who signed, and the assertion as core reads it. */
async function sign(challenge) {
	const c = await navigator.credentials.get({
		publicKey: { challenge, rpId: location.hostname, userVerification: 'required', timeout: 120000 },
	});
	const r = c.response;

	return {
		person: r.userHandle ? new TextDecoder().decode(r.userHandle) : '',
		signature: JSON.stringify({
			authenticator_data: base64url(r.authenticatorData),
			client_data: base64url(r.clientDataJSON),
			credential: base64url(c.rawId),
			signature: base64url(r.signature),
		}),
	};
}

/* --- signing in ---------------------------------------------------------------------- */

async function signIn() {
	const begun = await api('POST', '/api/sign-in/begin');
	const signed = await sign(unhex(begun.challenge));

	await api('POST', '/api/sign-in', { nonce: begun.nonce, person: signed.person, signature: signed.signature });
	go();
}

function go() {
	if (location.pathname === '/sign-in')
		location.replace('/');
	else
		location.reload();
}

/* A link from elsewhere comes without the cookie, which is for this site's own pages: ask again from here. */
async function signedInAlready() {
	if (sessionStorage.getItem('asked') === location.pathname)
		return;
	sessionStorage.setItem('asked', location.pathname);
	try {
		await api('GET', '/api/session');
		go();
	} catch (e) {
		/* No session: the page is right. */
	}
}

/* --- enrolling ----------------------------------------------------------------------- */

async function enrol() {
	const token = location.hash.slice(1);
	const begun = await api('POST', '/api/enrol/begin', { token });
	const c = await navigator.credentials.create({
		publicKey: {
			challenge: unhex(begun.challenge),
			rp: { id: location.hostname, name: 'Cofferdam' },
			user: { id: utf8(begun.person), name: begun.person, displayName: begun.person },
			pubKeyCredParams: [{ type: 'public-key', alg: -7 }, { type: 'public-key', alg: -8 }],
			authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
			attestation: 'none',
			timeout: 120000,
		},
	});
	const made = await api('POST', '/api/enrol', {
		token,
		attestation: base64(c.response.attestationObject),
		client_data: base64(c.response.clientDataJSON),
	});

	$('key-line').textContent = made.key;
	$('key-print').textContent = made.fingerprint;
	$('enrolled').hidden = false;
	say('The passkey is made, ' + begun.person + '.', true);
}

/* --- deciding ------------------------------------------------------------------------ */

async function statement(decision) {
	const id = $('request').dataset.id, role = decision === 'approve' && $('role') ? $('role').value : '-';
	const told = await api('POST', '/api/requests/' + id + '/statement', { decision, role });
	/* What is shown here is what is hashed here: the authenticator signs this and nothing else. */
	const hash = await crypto.subtle.digest('SHA-256', utf8(told.statement));

	$('statement-text').textContent = told.statement;
	$('statement-hash').textContent = hex(hash);
	return { id, role, hash };
}

async function decide(decision) {
	say('');
	const what = await statement(decision);
	const signed = await sign(what.hash);
	const now = await api('POST', '/api/requests/' + what.id + '/' + decision, { role: what.role, signature: signed.signature });

	busy = false;
	refresh(() => say(decision === 'approve' ? 'Your signature counts. The request is ' + now.state + '.' : 'Denied.', true));
}

/* --- live ---------------------------------------------------------------------------- */

function times() {
	const now = Date.now();

	document.querySelectorAll('time').forEach((t) => {
		const at = new Date(t.dateTime), minutes = Math.round((at - now) / 60000);

		if (Number.isNaN(at.getTime()))
			return;
		t.title = t.dateTime;
		t.textContent = at.toLocaleString(undefined, { year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short' }) +
			(Math.abs(minutes) >= 120 ? '' : minutes === 0 ? ' (now)' : minutes > 0 ? ' (in ' + minutes + ' min)' : ' (' + -minutes + ' min ago)');
	});
}

/* The same page again, written by the server; what the person was at stays as it is. */
function refresh(then) {
	const x = new XMLHttpRequest();

	if (busy) {
		setTimeout(() => refresh(then), 500);
		return;
	}
	x.open('GET', location.pathname);
	x.responseType = 'document';
	x.onload = () => {
		const fresh = x.response && x.response.querySelector('main'), old = document.querySelector('main');
		const role = $('role') && $('role').value, open = $('statement') && $('statement').open;
		const said = $('said') && [$('said').textContent, $('said').className];

		if (x.status === 401) {
			location.reload();
			return;
		}
		if (!fresh || busy)
			return;
		old.replaceWith(document.adoptNode(fresh));
		if (role && $('role'))
			$('role').value = role;
		if (open && $('statement'))
			$('statement').open = true;
		if (said && $('said'))
			[$('said').textContent, $('said').className] = said;
		bind();
		if (then)
			then();
	};
	x.send();
}

function listen() {
	const live = $('live'), events = new EventSource('/api/events');

	events.onopen = () => { live.textContent = 'live'; refresh(); };
	events.addEventListener('changed', () => refresh());
	events.onerror = () => {
		live.textContent = 'not live';
		if (events.readyState === EventSource.CLOSED)
			api('GET', '/api/session').then(() => setTimeout(listen, 5000), (e) => e.status === 401 ? location.reload() : setTimeout(listen, 5000));
	};
}

function press(id, act) {
	if ($(id))
		$(id).onclick = () => once(act);
}

/* What stands in <main>; it comes anew with each refresh. */
function bind() {
	times();
	press('sign-in', signIn);
	press('enrol', enrol);
	press('approve', () => decide('approve'));
	press('deny', () => decide('deny'));
	if ($('request') && $('decide')) {
		statement('approve').catch(() => {});
		if ($('role'))
			$('role').onchange = () => statement('approve').catch(() => {});
	} else if ($('request') && $('statement')) {
		$('statement').hidden = true;
	}
}

bind();
if ($('enrol') && location.hash.length > 1)
	$('enrol').disabled = false;
if ($('sign-in-page')) {
	signedInAlready();
} else {
	sessionStorage.removeItem('asked');
}
if ($('sign-out')) {
	$('sign-out').onclick = () => once(async () => {
		await api('POST', '/api/sign-out');
		location.replace('/sign-in');
	});
	listen();
	setInterval(times, 30000);
}
