/**
 * An agent loop in TypeScript that keeps its session in ctxmgr, over HTTP.
 *
 *     ctxmgr serve
 *     npx openapi-typescript http://127.0.0.1:8321/openapi.json --output ctxmgr.d.ts
 *     npx tsc --strict --module NodeNext harness.ts
 *     node harness.js http://127.0.0.1:8321 s1
 *
 * The model is a function here; replace it by a call of a provider's API.
 */
import createClient from "openapi-fetch";
import type { paths } from "./ctxmgr.js";

type Message = { role: string; content: unknown };
type Call = { id: string; name: string; args: Record<string, unknown> };
type Answer = { text: string; calls: Call[] };

const [baseUrl, session] = process.argv.slice(2);
if (baseUrl === undefined || session === undefined) throw new Error("usage: harness.js URL SESSION");
const ctxmgr = createClient<paths>({ baseUrl });

/** Answers like a model: it looks once, then it tells what it saw. */
function model(messages: Message[]): Answer {
  const seen = JSON.stringify(messages).includes("port = 8080");
  if (seen) return { text: "The server listens on port 8080.", calls: [] };
  return { text: "I look.", calls: [{ id: "call_1", name: "read", args: { path: "server.toml" } }] };
}

function runTool(call: Call): string {
  return call.name === "read" ? "port = 8080\n" : `unknown tool ${call.name}`;
}

/** Ask until the model wants no more tools; each model call is a turn. */
async function ask(session: string, question: string): Promise<string> {
  let user = question;
  for (;;) {
    const rendered = await ctxmgr.POST("/render", { body: { session, user, form: "openai" } });
    if (rendered.error) throw new Error(rendered.error.error.message);
    const { turn, request } = rendered.data;
    const answer = model(request["messages"] as Message[]);
    for (const call of answer.calls) {
      const { error } = await ctxmgr.POST("/record", {
        body: {
          session,
          call_id: call.id,
          tool: call.name,
          args: JSON.stringify(call.args),
          output: runTool(call),
        },
      });
      if (error) throw new Error(error.error.message);
    }
    const body = { session, turn, user, answer: answer.text, model: "scripted" };
    const { error } = await ctxmgr.POST("/end-turn", { body });
    if (error) throw new Error(error.error.message);
    if (answer.calls.length === 0) return answer.text;
    user = "";
  }
}

const { error } = await ctxmgr.POST("/start", {
  body: { session, system_prompt: "You are careful.", policy: "economy" },
});
if (error) throw new Error(error.error.message);
console.log(await ask(session, "What does the server listen on?"));
