// A client and a worker of the first system, written from the legacy documents alone: their frame, their
// Guid.ToByteArray, their models as JSON. Nothing of rollq's own extensions.
//
//   peer.exe client ADDRESSES QUEUE COUNT BYTES   submits COUNT jobs, checks their results
//   peer.exe worker ADDRESSES QUEUE CREDIT        turns every byte of Content over, and sends it back
//   peer.exe golden DIR                           writes what both send in a fixed conversation
//
// ADDRESSES is host:port,host:port... Both follow NotLeader and dial again after a cut.
using System;
using System.Collections.Generic;
using System.IO;
using System.Net.Sockets;
using System.Text;
using System.Threading;

enum MsgType : byte
{
    SubmitJob = 1, AssignJob = 2, AckJob = 3, Credit = 4, Result = 5,
    CachePut = 6, CacheAck = 7, HelloClient = 9, HelloWorker = 10, NotLeader = 20
}

sealed class Message
{
    public MsgType Type;
    public Guid MsgId = Guid.Empty;
    public Guid CorrId = Guid.Empty;
    public string Subject = "";
    public byte[] Payload = new byte[0];
}

static class Codec
{
    const int MaxBytes = 4 * 1024 * 1024;

    public static byte[] Encode(Message m)
    {
        var subject = Encoding.UTF8.GetBytes(m.Subject);
        var body = new MemoryStream();
        var w = new BinaryWriter(body);
        w.Write((byte)m.Type);
        w.Write(m.MsgId.ToByteArray());
        w.Write(m.CorrId.ToByteArray());
        w.Write((ushort)subject.Length);
        w.Write(subject);
        w.Write(m.Payload.Length);
        w.Write(m.Payload);
        w.Flush();
        if (body.Length > MaxBytes) throw new InvalidDataException("a frame over 4 MB");
        var frame = new MemoryStream();
        var f = new BinaryWriter(frame);
        f.Write((int)body.Length);
        f.Write(body.ToArray());
        f.Flush();
        return frame.ToArray();
    }

    public static void Write(Stream s, Message m)
    {
        var frame = Encode(m);
        s.Write(frame, 0, frame.Length);
    }

    public static Message Read(Stream s)
    {
        var head = ReadExact(s, 4);
        int length = BitConverter.ToInt32(head, 0);
        if (length <= 0 || length > MaxBytes) throw new InvalidDataException("bad length " + length);
        var r = new BinaryReader(new MemoryStream(ReadExact(s, length)));
        var m = new Message();
        m.Type = (MsgType)r.ReadByte();
        m.MsgId = new Guid(r.ReadBytes(16));
        m.CorrId = new Guid(r.ReadBytes(16));
        m.Subject = Encoding.UTF8.GetString(r.ReadBytes(r.ReadUInt16()));
        m.Payload = r.ReadBytes(r.ReadInt32());
        return m;
    }

    static byte[] ReadExact(Stream s, int count)
    {
        var data = new byte[count];
        for (int at = 0; at < count;)
        {
            int got = s.Read(data, at, count - at);
            if (got <= 0) throw new EndOfStreamException();
            at += got;
        }
        return data;
    }
}

static class Json
{
    // The models are flat, and no value of theirs that is read here has an escape in it.
    public static string Field(string json, string name)
    {
        int at = json.IndexOf("\"" + name + "\":", StringComparison.Ordinal);
        if (at < 0) return null;
        at += name.Length + 3;
        while (json[at] == ' ') at++;
        if (json[at] != '"') return null;
        int end = json.IndexOf('"', at + 1);
        return json.Substring(at + 1, end - at - 1);
    }

    public static string Request(Guid id, string client, string exec, byte[] content)
    {
        return "{\"JobId\":\"" + id + "\",\"ClientId\":\"" + client + "\",\"ExecName\":\"" + exec
            + "\",\"Args\":[\"--mode=fast\"],\"Files\":[{\"Name\":\"in.bin\",\"CacheId\":null,\"Content\":\""
            + Convert.ToBase64String(content) + "\"}]}";
    }

    public static string Result(string id, string client, string exec, byte[] archive)
    {
        return "{\"JobId\":\"" + id + "\",\"ClientId\":\"" + client + "\",\"ExecName\":\"" + exec
            + "\",\"Status\":\"OK\",\"Stdout\":\"done\",\"Stderr\":\"\",\"OutputArchive\":\""
            + Convert.ToBase64String(archive) + "\"}";
    }

    public static string Config(string client, int desired)
    {
        return "{\"ClientId\":\"" + client + "\",\"DesiredParallelism\":" + desired + "}";
    }
}

sealed class Dialer
{
    readonly List<string> _addresses;
    int _next;

    public Dialer(string addresses) { _addresses = new List<string>(addresses.Split(',')); }

    public NetworkStream Dial()
    {
        while (true)
        {
            var address = _addresses[_next % _addresses.Count];
            try
            {
                var colon = address.LastIndexOf(':');
                var tcp = new TcpClient();
                tcp.Connect(address.Substring(0, colon), int.Parse(address.Substring(colon + 1)));
                tcp.NoDelay = true;
                return tcp.GetStream();
            }
            catch (SocketException) { _next++; Thread.Sleep(50); }
        }
    }

    public void Failed() { _next++; Thread.Sleep(50); }

    public void Redirected(Message notLeader)
    {
        var leader = Json.Field(Encoding.UTF8.GetString(notLeader.Payload), "leader");
        int at = string.IsNullOrEmpty(leader) ? -1 : _addresses.IndexOf(leader);
        if (at >= 0 && at != _next % _addresses.Count) _next = at; else Failed();
    }
}

static class Work
{
    public static byte[] Content(int number, int size)
    {
        var content = new byte[size];
        new Random(number).NextBytes(content);
        return content;
    }

    public static byte[] Turned(byte[] content)
    {
        var turned = new byte[content.Length];
        for (int i = 0; i < content.Length; i++) turned[i] = (byte)~content[i];
        return turned;
    }

    public static bool Same(byte[] a, byte[] b)
    {
        if (a.Length != b.Length) return false;
        for (int i = 0; i < a.Length; i++) if (a[i] != b[i]) return false;
        return true;
    }
}

static class Client
{
    public static int Run(string addresses, string queue, int count, int size)
    {
        var dialer = new Dialer(addresses);
        var left = new Dictionary<Guid, int>();
        for (int number = 0; number < count; number++) left[Guid.NewGuid()] = number;
        int ok = 0;
        while (left.Count > 0)
        {
            try
            {
                using (var stream = dialer.Dial())
                {
                    Codec.Write(stream, new Message {
                        Type = MsgType.HelloClient, Subject = "csharp",
                        Payload = Encoding.UTF8.GetBytes(Json.Config("csharp", 8)) });
                    // The same ids as before: what was taken already is not run again.
                    var again = new List<KeyValuePair<Guid, int>>(left);
                    var sender = new Thread(() => Submit(stream, queue, again, size));
                    sender.IsBackground = true;
                    sender.Start();
                    while (left.Count > 0)
                    {
                        var m = Codec.Read(stream);
                        if (m.Type == MsgType.NotLeader) { dialer.Redirected(m); break; }
                        int number;
                        if (m.Type != MsgType.Result || !left.TryGetValue(m.CorrId, out number)) continue;
                        left.Remove(m.CorrId);
                        var json = Encoding.UTF8.GetString(m.Payload);
                        var archive = Json.Field(json, "OutputArchive");
                        var wanted = Work.Turned(Work.Content(number, size));
                        bool good = Json.Field(json, "Status") == "OK" && archive != null
                            && Work.Same(Convert.FromBase64String(archive), wanted);
                        if (good) ok++; else Console.WriteLine("bad " + m.CorrId + " " + json.Substring(0, Math.Min(500, json.Length)));
                        Console.WriteLine("result " + (count - left.Count));
                        Console.Out.Flush();
                    }
                }
            }
            catch (IOException) { dialer.Failed(); }
        }
        Console.WriteLine(ok + " of " + count);
        return ok == count ? 0 : 1;
    }

    static void Submit(Stream stream, string queue, List<KeyValuePair<Guid, int>> jobs, int size)
    {
        try
        {
            foreach (var job in jobs)
            {
                var json = Json.Request(job.Key, "csharp", queue, Work.Content(job.Value, size));
                Codec.Write(stream, new Message {
                    Type = MsgType.SubmitJob, MsgId = Guid.NewGuid(),
                    Subject = "job.submit." + queue, Payload = Encoding.UTF8.GetBytes(json) });
            }
        }
        catch (IOException) { }
        catch (ObjectDisposedException) { }
    }
}

static class Worker
{
    public static int Run(string addresses, string queue, int credit)
    {
        var dialer = new Dialer(addresses);
        var id = Guid.NewGuid();
        while (true)
        {
            try
            {
                using (var stream = dialer.Dial())
                {
                    Codec.Write(stream, new Message {
                        Type = MsgType.HelloWorker, MsgId = id, Subject = "job.assign." + queue });
                    Codec.Write(stream, Credit(credit));
                    Console.WriteLine("working");
                    Console.Out.Flush();
                    while (true)
                    {
                        var m = Codec.Read(stream);
                        if (m.Type == MsgType.NotLeader) { dialer.Redirected(m); break; }
                        if (m.Type != MsgType.AssignJob) continue;
                        Codec.Write(stream, Ack(m));
                        Codec.Write(stream, Credit(1));
                    }
                }
            }
            catch (IOException) { dialer.Failed(); }
        }
    }

    public static Message Credit(int count)
    {
        return new Message { Type = MsgType.Credit, Payload = BitConverter.GetBytes(count) };
    }

    public static Message Ack(Message assigned)
    {
        var json = Encoding.UTF8.GetString(assigned.Payload);
        var turned = Work.Turned(Convert.FromBase64String(Json.Field(json, "Content")));
        var result = Json.Result(Json.Field(json, "JobId"), Json.Field(json, "ClientId"),
            Json.Field(json, "ExecName"), turned);
        return new Message {
            Type = MsgType.AckJob, CorrId = assigned.MsgId, Payload = Encoding.UTF8.GetBytes(result) };
    }
}

static class Golden
{
    // The bytes of both peers in one conversation with fixed ids, for members that are tested
    // where no C# is.
    public static int Run(string directory)
    {
        var job = new Guid("00112233-4455-6677-8899-aabbccddeeff");
        var worker = new Guid("0f0e0d0c-0b0a-0908-0706-050403020100");
        var request = Json.Request(job, "golden", "calcA", Encoding.UTF8.GetBytes("hello"));
        var hello = Codec.Encode(new Message {
            Type = MsgType.HelloClient, Subject = "golden",
            Payload = Encoding.UTF8.GetBytes(Json.Config("golden", 8)) });
        var submit = new Message {
            Type = MsgType.SubmitJob, MsgId = worker, Subject = "job.submit.goldenA",
            Payload = Encoding.UTF8.GetBytes(request) };
        Save(directory, "client.bin", hello, Codec.Encode(submit));
        Save(directory, "worker.bin", Codec.Encode(new Message {
            Type = MsgType.HelloWorker, MsgId = worker, Subject = "job.assign.goldenA" }),
            Codec.Encode(Worker.Credit(1)));
        var assigned = new Message {
            Type = MsgType.AssignJob, MsgId = job, CorrId = job,
            Subject = "job.assign.goldenA", Payload = submit.Payload };
        Save(directory, "assigned.bin", Codec.Encode(assigned));
        var ack = Worker.Ack(assigned);
        Save(directory, "ack.bin", Codec.Encode(ack));
        Save(directory, "result.bin", Codec.Encode(new Message {
            Type = MsgType.Result, MsgId = job, CorrId = job, Payload = ack.Payload }));
        return 0;
    }

    static void Save(string directory, string name, params byte[][] frames)
    {
        using (var file = File.Create(Path.Combine(directory, name)))
            foreach (var frame in frames) file.Write(frame, 0, frame.Length);
    }
}

static class Program
{
    static int Main(string[] args)
    {
        switch (args[0])
        {
            case "client": return Client.Run(args[1], args[2], int.Parse(args[3]), int.Parse(args[4]));
            case "worker": return Worker.Run(args[1], args[2], int.Parse(args[3]));
            case "golden": return Golden.Run(args[1]);
            default: Console.Error.WriteLine("client, worker or golden"); return 2;
        }
    }
}
