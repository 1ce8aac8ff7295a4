import createClient from "openapi-fetch";
import type { components, paths } from "./ctxmgr.js";

type Session = components["schemas"]["SessionLine"];

const [baseUrl, session] = process.argv.slice(2);
if (baseUrl === undefined || session === undefined) throw new Error("usage: client.js URL SESSION");
const ctxmgr = createClient<paths>({ baseUrl });

async function main(session: string): Promise<void> {
  const { data: page, error } = await ctxmgr.GET("/sessions", { params: { query: { limit: 5 } } });
  if (error) throw new Error(error.error.message);
  const { data: log } = await ctxmgr.POST("/log", { body: { session } });
  if (!log) throw new Error("no log");
  const first = log.entries[0]?.calls[0]?.object_id;
  if (first === undefined) throw new Error("no call");
  const { data: changed } = await ctxmgr.POST("/deactivate", { body: { session, object_id: first } });
  const { error: missing } = await ctxmgr.POST("/log", { body: { session: "nobody" } });
  console.log(
    JSON.stringify({
      sessions: page.sessions.map((session: Session) => session.session_id),
      turns: log.turns,
      level: changed?.level,
      code: missing?.error.code,
    }),
  );
}

/** Never called: each line has to be refused by the compiler, or types that accept all would pass. */
export async function misuse(session: string): Promise<void> {
  const { data: log } = await ctxmgr.POST("/log", { body: { session } });
  // @ts-expect-error a number has no length
  log?.turns.length;
  // @ts-expect-error there is no such field
  log?.entries[0]?.calls[0]?.objectid;
  // @ts-expect-error object_id is missing
  await ctxmgr.POST("/deactivate", { body: { session } });
  // @ts-expect-error there is no such path
  await ctxmgr.POST("/delete", { body: { session } });
}

await main(session);
