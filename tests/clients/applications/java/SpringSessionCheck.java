import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.session.FindByIndexNameSessionRepository;
import org.springframework.session.Session;
import org.springframework.session.data.redis.RedisIndexedSessionRepository;
import org.springframework.session.data.redis.config.ConfigureNotifyKeyspaceEventsAction;
import org.springframework.session.events.SessionCreatedEvent;
import org.springframework.session.events.SessionDeletedEvent;
import org.springframework.session.events.SessionExpiredEvent;
import org.springframework.data.redis.core.RedisTemplate;
import org.springframework.data.redis.listener.ChannelTopic;
import org.springframework.data.redis.listener.PatternTopic;
import org.springframework.data.redis.listener.RedisMessageListenerContainer;
import org.springframework.data.redis.serializer.RedisSerializer;

/** Spring Session's repository with an index: sessions by name, and events of their ends from the keyspace. */
public class SpringSessionCheck {
    static final CountDownLatch created = new CountDownLatch(3);
    static final CountDownLatch deleted = new CountDownLatch(1);
    static final CountDownLatch expired = new CountDownLatch(1);

    static void ensure(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    static <S extends Session> S login(FindByIndexNameSessionRepository<S> sessions, String name) {
        S session = sessions.createSession();
        session.setAttribute(FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME, name);
        session.setAttribute("cart", new java.util.ArrayList<>(java.util.List.of("book")));
        sessions.save(session);
        return session;
    }

    static <S extends Session> void check(FindByIndexNameSessionRepository<S> sessions) throws Exception {
        S ann = login(sessions, "ann");
        S also = login(sessions, "ann");
        S bob = login(sessions, "bob");
        Map<String, S> found = sessions.findByPrincipalName("ann");
        ensure(found.size() == 2 && found.containsKey(ann.getId()) && found.containsKey(also.getId()), "ann's sessions");
        ensure(created.await(10, TimeUnit.SECONDS), "three new sessions are not announced");
        S read = sessions.findById(ann.getId());
        ensure(read.getAttribute("cart").equals(java.util.List.of("book")), "the session's cart");
        read.setAttribute("cart", null);
        read.setAttribute("seen", 7);
        sessions.save(read);
        S again = sessions.findById(ann.getId());
        ensure(again.getAttribute("cart") == null && again.getAttribute("seen").equals(7), "the session's changes");
        String before = again.getId();
        again.changeSessionId();
        sessions.save(again);
        ensure(sessions.findById(before) == null && sessions.findById(again.getId()) != null, "the session's new id");
        System.out.println("ok: Spring Session saves, finds by name and renames sessions");
        sessions.deleteById(also.getId());
        ensure(deleted.await(10, TimeUnit.SECONDS), "a deleted session is not announced");
        ensure(sessions.findByPrincipalName("ann").size() == 1, "a deleted session is found");
        bob.setMaxInactiveInterval(Duration.ofSeconds(1));
        sessions.save(bob);
        ensure(expired.await(20, TimeUnit.SECONDS), "an expired session is not announced");
        ensure(sessions.findById(bob.getId()) == null && sessions.findByPrincipalName("bob").isEmpty(), "it is found");
        System.out.println("ok: Spring Session hears of deleted and expired sessions");
    }

    public static void main(String[] args) throws Exception {
        RedisStandaloneConfiguration where = new RedisStandaloneConfiguration("127.0.0.1", Integer.parseInt(args[0]));
        where.setDatabase(1);
        LettuceConnectionFactory factory = new LettuceConnectionFactory(where);
        factory.afterPropertiesSet();
        factory.start();
        try (var connection = factory.getConnection()) {
            new ConfigureNotifyKeyspaceEventsAction().configure(connection);
        }
        RedisTemplate<String, Object> template = new RedisTemplate<>();
        template.setKeySerializer(RedisSerializer.string());
        template.setHashKeySerializer(RedisSerializer.string());
        template.setConnectionFactory(factory);
        template.afterPropertiesSet();
        RedisIndexedSessionRepository sessions = new RedisIndexedSessionRepository(template);
        sessions.setDatabase(1);
        sessions.setCleanupCron("* * * * * *");
        sessions.setApplicationEventPublisher(event -> {
            if (event instanceof SessionCreatedEvent) {
                created.countDown();
            } else if (event instanceof SessionExpiredEvent) {
                expired.countDown();
            } else if (event instanceof SessionDeletedEvent) {
                deleted.countDown();
            }
        });
        sessions.afterPropertiesSet();
        RedisMessageListenerContainer listener = new RedisMessageListenerContainer();
        listener.setConnectionFactory(factory);
        listener.addMessageListener(sessions, java.util.List.of(
            new ChannelTopic(sessions.getSessionDeletedChannel()), new ChannelTopic(sessions.getSessionExpiredChannel())));
        listener.addMessageListener(sessions,
            java.util.List.of(new PatternTopic(sessions.getSessionCreatedChannelPrefix() + "*")));
        listener.afterPropertiesSet();
        listener.start();
        try {
            check(sessions);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }
}
