// Check credentials offline with Digital Bazaar's verifier: node verify.mjs FILE…
// Prints a JSON list with one object per file: whether it is verified, and whether every term in it is defined.
import {readFileSync} from 'node:fs';
import {contexts} from '@digitalbazaar/credentials-context';
import {DataIntegrityProof} from '@digitalbazaar/data-integrity';
import {createVerifyCryptosuite} from '@digitalbazaar/eddsa-jcs-2022-cryptosuite';
import {verifyCredential} from '@digitalbazaar/vc';
import jsonld from 'jsonld';

// Contexts come from a package, and a did:key spells its own document; nothing else is loaded.
async function documentLoader(url) {
  const [did, fragment] = url.split('#');
  if(!contexts.has(url) && !did.startsWith('did:key:')) {
    throw new Error(`refused to load ${url}`);
  }
  const key = did.slice('did:key:'.length);
  const method = {
    '@context': 'https://w3id.org/security/multikey/v1', id: `${did}#${key}`, type: 'Multikey', controller: did,
    publicKeyMultibase: key
  };
  const owner = {'@context': 'https://www.w3.org/ns/did/v1', id: did, assertionMethod: [method]};
  return {contextUrl: null, documentUrl: url, document: contexts.get(url) ?? (fragment ? method : owner)};
}

const results = [];
for(const file of process.argv.slice(2)) {
  const credential = JSON.parse(readFileSync(file, 'utf8'));
  const suite = new DataIntegrityProof({cryptosuite: createVerifyCryptosuite()});
  const {verified} = await verifyCredential({credential, suite, documentLoader});
  const defined = await jsonld.expand(credential, {documentLoader, safe: true}).then(() => true, () => false);
  results.push({verified, defined});
}
console.log(JSON.stringify(results));
