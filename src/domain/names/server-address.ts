import { ValidationError } from "./errors.ts";
import { hintFor } from "./known-names.ts";
import { shown } from "./names.ts";

// The address of a server is not read by `new URL`, whose error carries the whole text, password and all. No message of these functions has
// anything of the part before the host.

/** `user:password@authority/path?parameters`, the first two and the parameters decoded. */
interface AddressParts {
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly authority: string;
  readonly path: string;
  readonly parameters: ReadonlyMap<string, string>;
}

/** The parts of an address behind its scheme; other parameters than those that are named are refused. */
export function addressParts(rest: string, names: readonly string[]): AddressParts {
  const [before = "", query = ""] = splitAt(rest, rest.indexOf("?"));
  const at = before.lastIndexOf("@");
  const userInfo = at < 0 ? "" : before.slice(0, at);
  // An unescaped "/", "?" or "#" in a password ends the part that has it: what follows would be taken for the name of a host.
  if (/[/#\s]/.test(userInfo) || query.includes("@") || before.includes("#")) {
    throw invalidAddress(
      'its user or password has a "/", "?", "#", "@" or a space as it is; write it with a percent sign, such as %2F',
    );
  }
  const place = before.slice(at + 1);
  const [authority = "", path = ""] = splitAt(place, place.indexOf("/"));
  const [user = "", password] = splitAt(userInfo, userInfo.indexOf(":"));
  return {
    user: user === "" ? undefined : decodedPart(user, "the user"),
    password: password === undefined ? undefined : decodedPart(password, "the password"),
    ...{ authority, path, parameters: parametersOf(query, names) },
  };
}

/** The name or number of a host, in brackets where it has colons, and its port. */
export function hostAndPort(authority: string, portDefault: number): { readonly named: string; readonly port: number } {
  const [, named = "", port] = /^(\[[0-9a-f:.%]+\]|[^:,[\]\s]*)(?::(\d+))?$/i.exec(authority) ?? [];
  const number = port === undefined ? portDefault : Number(port);
  if (number < 1 || number > 65_535) throw invalidAddress(`its port is ${number}; give one from 1 to 65535`);
  return { named: named.replace(/^\[|\]$/g, ""), port: number };
}

export function decodedPart(text: string, what: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Its own error would show the text.
    throw invalidAddress(`${what} has a percent sign that is not followed by two hexadecimal digits; write % as %25`);
  }
}

export function invalidAddress(why: string): ValidationError {
  return new ValidationError("option_invalid", `The address of the store cannot be read: ${why}.`);
}

function parametersOf(query: string, names: readonly string[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const pair of query.split("&")) {
    if (pair === "") continue;
    const [name = "", value = ""] = splitAt(pair, pair.indexOf("="));
    if (!names.includes(name)) {
      // Only what can be a name is shown: anything else may be the rest of a password.
      const told = /^[a-z_]{1,30}$/i.test(name) ? `the unknown parameter ${shown(name)}` : "an unknown parameter";
      throw new ValidationError("option_unknown", `The address of the store has ${told}; ${hintFor(name, names)}.`);
    }
    found.set(name, decodedPart(value, `the parameter ${name}`));
  }
  return found;
}

function splitAt(text: string, index: number): [string, string | undefined] {
  return index < 0 ? [text, undefined] : [text.slice(0, index), text.slice(index + 1)];
}
