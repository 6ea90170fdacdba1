/* A headless Chromium for tests: reads {id, code, args} lines, runs the code with `b` (the browser), `people`
 * and the helpers below, answers {id, value} or {id, error}. */
'use strict';
const readline = require('node:readline');
const { chromium } = require('playwright-core');

const people = {};

/* A browser of one person: own cookies, own authenticator. */
async function person(b, name, options = {}) {
	const context = await b.newContext({ locale: 'en-GB', timezoneId: 'UTC', ...options });
	const page = await context.newPage();
	const cdp = await context.newCDPSession(page);

	await cdp.send('WebAuthn.enable');
	const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
		options: { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true,
			isUserVerified: true, automaticPresenceSimulation: true },
	});
	const errors = [];
	page.on('pageerror', (e) => errors.push(String(e)));
	page.on('console', (m) => { if (m.type() === 'error' && !/status of (401|403|404|409|421)/.test(m.text())) errors.push(m.text()); });
	people[name] = { context, page, cdp, authenticatorId, errors };
	return people[name];
}

async function main() {
	const [executablePath, ...args] = process.argv.slice(2);
	const b = await chromium.launch({ executablePath, headless: true, args });
	const Run = Object.getPrototypeOf(main).constructor;

	console.log(JSON.stringify({ id: 0, value: b.version() }));
	for await (const line of readline.createInterface({ input: process.stdin })) {
		const { id, code, args: given } = JSON.parse(line);

		try {
			const value = await new Run('b', 'people', 'person', 'args', code)(b, people, person, given);
			console.log(JSON.stringify({ id, value: value === undefined ? null : value }));
		} catch (e) {
			console.log(JSON.stringify({ id, error: String(e && e.stack || e) }));
		}
	}
	await b.close();
}

main().catch((e) => {
	console.error(e);
	process.exit(1);
});
