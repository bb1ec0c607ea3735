import { useEffect, useRef, useState } from "preact/hooks";

/** Asks for the token; it stays in this tab and is sent as a header only. */
export function TokenForm(props: {
  readonly error: string | undefined;
  readonly onToken: (token: string) => Promise<void>;
}) {
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), [props.error]);
  const enter = async () => {
    const given = token.trim();
    if (given === "") {
      input.current?.focus();
      return;
    }
    setBusy(true);
    await props.onToken(given);
    setBusy(false);
  };
  return (
    <form
      class="token-form"
      data-testid="token-form"
      onSubmit={(event) => {
        event.preventDefault();
        void enter();
      }}
    >
      <h1 data-testid="page-title">Sign in with a token</h1>
      <p class="quiet">
        This service requires a token. The scope <code>read</code> allows viewing; <code>admin</code> also allows
        changes.
      </p>
      <label class="field">
        <span>Token</span>
        <input
          ref={input}
          data-testid="token-input"
          type="password"
          autocomplete="off"
          spellcheck={false}
          placeholder="zael_…"
          value={token}
          aria-invalid={props.error !== undefined}
          aria-describedby={props.error === undefined ? undefined : "token-error"}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      {props.error !== undefined && (
        <p class="note bad" id="token-error" role="alert" data-testid="token-error">
          {props.error}
        </p>
      )}
      <button type="submit" class="button primary wide" data-testid="token-submit" disabled={isBusy}>
        {isBusy ? "Checking…" : "Sign in"}
      </button>
      <p class="quiet small">The token is kept in this tab until you close it. Create one with</p>
      <code class="quiet small command-line">
        zae-limiter token add tokens.json --id me --namespaces default --scopes read
      </code>
    </form>
  );
}
