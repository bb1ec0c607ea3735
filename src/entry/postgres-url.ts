import { isPostgresUrl } from "../adapters/postgres/address.ts";
import { ValidationError } from "../domain/errors.ts";

/** The address of a server: as it is given, else that of `DATABASE_URL`. Whatever it is, no message shows it. */
export function postgresUrlOf(given: string | undefined, databaseUrl: string | undefined): string {
  const found = given ?? databaseUrl;
  if (found === undefined || found === "") {
    throw new ValidationError(
      "option_invalid",
      'The store "postgres" goes by DATABASE_URL, which is not set; set it, or give postgres://host:5432/database.',
    );
  }
  if (typeof found === "string" && isPostgresUrl(found)) return found;
  const whose = given === undefined ? "The address in DATABASE_URL" : "The address of the store";
  throw new ValidationError("option_invalid", `${whose} does not begin with postgres:// or postgresql://.`);
}
