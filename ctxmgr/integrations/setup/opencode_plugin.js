// Added by `ctxmgr setup opencode`, and removed by `ctxmgr setup opencode --remove`.
// Passes prompts, tool calls, answers and compactions of opencode to `ctxmgr hook`, in order.
import { spawnSync } from "node:child_process"

const COMMAND = ["ctxmgr", "hook"]
const MILLISECONDS_MAX = 60_000
const PAUSE_MILLISECONDS = 600_000 // without events, after one took too long
const KEPT_MAX = 10_000 // calls and sessions that are remembered

export const Ctxmgr = async ({ client, directory }) => {
  const sessions = new Map() // id: {parent, fresh, begun, answer, summary, model, usage}
  const messages = new Map() // id of an assistant's message: {session, isSummary, tokens}
  const calls = new Set()
  let pausedUntil = 0

  const keep = (kept, key, value) => {
    if (kept.size >= KEPT_MAX) kept.delete(kept.keys().next().value)
    value === undefined ? kept.add(key) : kept.set(key, value)
    return value
  }
  const known = (id) => sessions.get(id) ?? keep(sessions, id, { answer: "", summary: "", usage: {} })

  const send = (name, id, fields) => {
    if (Date.now() < pausedUntil) return ""
    const { parent } = known(id)
    const origin = parent ? { session_id: parent, agent_id: id } : { session_id: id }
    const event = { hook_event_name: name, ...origin, cwd: directory, ...fields }
    // Synchronous: an event that is on its way when opencode ends would be lost.
    const ran = spawnSync(COMMAND[0], COMMAND.slice(1), {
      input: JSON.stringify(event),
      env: { ...process.env, OPENCODE_PROJECT_DIR: directory },
      timeout: MILLISECONDS_MAX,
      killSignal: "SIGKILL",
      encoding: "utf8",
    })
    if (ran.status === 0) return ran.stdout
    // It took too long, and opencode stood still meanwhile: once is enough.
    if (ran.signal) pausedUntil = Date.now() + PAUSE_MILLISECONDS
    const message = `ctxmgr hook: ${ran.error ?? ran.stderr}`
    client.app.log({ body: { service: "ctxmgr", level: "warn", message } }).catch(() => {})
    return ""
  }

  const begin = (id) => {
    const session = known(id)
    if (session.begun) return ""
    session.begun = true
    if (session.parent) return ""
    const answer = send("SessionStart", id, { source: session.fresh ? "startup" : "resume" })
    try {
      return JSON.parse(answer || "{}").hookSpecificOutput?.additionalContext ?? ""
    } catch {
      return ""
    }
  }

  const finishCall = (part) => {
    const { status, input, output, error, attachments, metadata, time } = part.state
    const begun = `${part.callID} ${time?.start}` // some models use the same ids in every answer
    if ((status !== "completed" && status !== "error") || calls.has(begun)) return
    keep(calls, begun)
    const call = { tool_name: part.tool, tool_input: input, tool_use_id: part.callID }
    if (status === "error" || metadata?.exit)
      return send("PostToolUseFailure", part.sessionID, { ...call, error: error ?? output })
    const pictures = (attachments ?? []).map(({ mime, url }) => ({
      type: "image",
      mimeType: mime,
      data: String(url).replace(/^data:[^,]*,/, ""),
    }))
    const content = [{ type: "text", text: output }, ...pictures]
    send("PostToolUse", part.sessionID, { ...call, tool_response: { content } })
  }

  const finishText = (part) => {
    const message = messages.get(part.messageID)
    if (!message || part.synthetic || !part.time?.end) return
    const session = known(part.sessionID)
    message.isSummary ? (session.summary = part.text) : (session.answer = part.text)
  }

  const answered = (info) => {
    if (info.role !== "assistant") return
    const session = known(info.sessionID)
    const isSummary = info.summary === true
    keep(messages, info.id, { isSummary })
    session.model = info.modelID
    if (info.time?.completed) session.usage[info.id] = info.tokens
  }

  const totals = (usage) => {
    const sum = { input: 0, output: 0, reasoning: 0, cache: { read: 0, write: 0 } }
    for (const { input, output, reasoning, cache } of Object.values(usage)) {
      sum.input += input
      sum.output += output + reasoning
      sum.cache.read += cache?.read ?? 0
      sum.cache.write += cache?.write ?? 0
    }
    return {
      input_tokens: sum.input,
      output_tokens: sum.output,
      cache_read_input_tokens: sum.cache.read,
      cache_creation_input_tokens: sum.cache.write,
    }
  }

  const stop = (id) => {
    const session = known(id)
    if (!session.begun) return
    send(session.parent ? "SubagentStop" : "Stop", id, {
      last_assistant_message: session.answer,
      model: session.model,
      usage: totals(session.usage),
    })
    session.answer = ""
    session.usage = {}
  }

  const compacted = (id) => {
    const session = known(id)
    send("PostCompact", id, { compact_summary: session.summary })
    session.summary = ""
  }

  return {
    event: async ({ event: { type, properties } }) => {
      if (type === "session.created") {
        const { id, parentID } = properties.info
        Object.assign(known(id), { parent: parentID && (known(parentID).parent ?? parentID), fresh: true })
      } else if (type === "message.updated") answered(properties.info)
      else if (type === "message.part.updated" && properties.part.type === "tool") finishCall(properties.part)
      else if (type === "message.part.updated" && properties.part.type === "text") finishText(properties.part)
      else if (type === "session.compacted") compacted(properties.sessionID)
      else if (type === "session.idle") stop(properties.sessionID)
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const context = begin(sessionID)
      const said = parts.filter((part) => part.type === "text" && !part.synthetic)
      send("UserPromptSubmit", sessionID, { prompt: said.map((part) => part.text).join("\n") })
      if (context && said.length)
        parts.push({ ...said[0], id: `${said[0].id}z`, messageID: message.id, text: context, synthetic: true })
    },
    dispose: async () => {
      for (const [id, { begun, parent }] of sessions) if (begun && !parent) send("SessionEnd", id, {})
    },
  }
}
